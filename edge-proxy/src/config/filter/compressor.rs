//! Compression of responses (Envoy's `compressor`).

/// A compressor.
#[derive(Debug)]
pub struct Compressor {
    /// What it makes of a response.
    pub encoding: Encoding,
    /// Responses that are known to be shorter stay as they are.
    pub min_length: u64,
    /// The media types that it is for.
    pub media_types: Box<[Box<str>]>,
    /// It is chosen among those that a client likes equally well.
    pub is_first: bool,
    /// A response with an entity tag stays as it is.
    pub keeps_tagged: bool,
    /// Backends don't learn what the client takes.
    pub hides_accepted: bool,
}

/// A coding of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Encoding {
    /// Its name in `accept-encoding` and `content-encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

impl Compressor {
    /// Whether it is for a media type; one that isn't told is for all of them.
    pub fn is_for(&self, media_type: Option<&str>) -> bool {
        let Some(media_type) = media_type else { return true };
        self.media_types.iter().any(|one| one.eq_ignore_ascii_case(media_type))
    }
}
