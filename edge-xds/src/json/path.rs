//! Where in a value one is.

/// The fields and items that lead to a value; empty at the value that is read as a whole.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Looks into a field, or an entry of a map.
    pub(super) fn in_field<T>(&mut self, name: &str, look: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(name);
        let found = look(self);
        self.0.truncate(length);
        found
    }

    /// Looks into an item of a list.
    pub(super) fn in_item<T>(&mut self, index: usize, look: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        self.0.push_str(&format!("[{index}]"));
        let found = look(self);
        self.0.truncate(length);
        found
    }

    /// The path of what is called so from here. "." is this place, as in paths of `serde_path_to_error`.
    pub(super) fn join(&self, inner: &str) -> String {
        match (self.0.as_str(), inner) {
            ("", inner) => inner.to_owned(),
            (outer, ".") => outer.to_owned(),
            (outer, inner) => format!("{outer}.{inner}"),
        }
    }

    /// The path of this place.
    pub(super) fn here(&self) -> String {
        self.join(".")
    }
}
