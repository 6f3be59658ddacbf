//! Versions of images: the tags of their names.

use anyhow::{Result, bail};
use serde_json::Value;

/// Values that name an image of this product.
const OURS: [&str; 3] = [
    "/global/images/edgeGateway/image",
    "/global/images/edgeProxy/image",
    "/deployment/edgeGateway/image",
];

/// Gives the images a version, in whatever registry and repository they are.
pub(super) fn set_version(values: &mut Value, version: &str) -> Result<()> {
    for path in OURS {
        if let Some(Value::String(image)) = values.pointer_mut(path)
            && !image.is_empty()
        {
            if image.contains('@') {
                bail!("--version: image {image} is pinned by its digest; leave one of them out");
            }
            *image = format!("{}:{version}", repository(image));
        }
    }
    Ok(())
}

/// An image without its tag. A colon before a slash belongs to the registry's port.
fn repository(image: &str) -> &str {
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_version_is_the_tag_whatever_the_repository() {
        let mut values = json!({
            "global": {"images": {"edgeGateway": {"image": "mirror:5000/own/controller"}, "edgeProxy": {"image": "a/b:v1"}}},
            "deployment": {"edgeGateway": {"image": ""}},
        });
        set_version(&mut values, "v2").unwrap();
        let images = &values["global"]["images"];
        assert_eq!(images["edgeGateway"]["image"], "mirror:5000/own/controller:v2");
        assert_eq!(images["edgeProxy"]["image"], "a/b:v2");
        assert_eq!(values["deployment"]["edgeGateway"]["image"], "", "it says nothing");
    }

    #[test]
    fn a_digest_has_no_version() {
        let mut values = json!({"deployment": {"edgeGateway": {"image": "a/b@sha256:00"}}});
        let error = set_version(&mut values, "v2").unwrap_err().to_string();
        assert!(error.contains("a/b@sha256:00"), "{error}");
    }
}
