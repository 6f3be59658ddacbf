//! Secrets in files: whoever renews a certificate says nothing, so the files are looked at.

use std::rc::Rc;
use std::time::Duration;

use crate::control::Control;

/// How often files are looked at. A file that is swapped for another (`rename`, or a link as kubelet's) is whole
/// whenever it is; of one that breaks off within a certificate, a key or a list the secret stays as it was.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Looks at the files of secrets until the process ends.
pub(crate) async fn follow(control: Rc<Control>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        control.reload_files();
    }
}
