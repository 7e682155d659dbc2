//! Why something went to the pool: one word for each reason, the same in metrics, spans and documents.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// A file system that may hang: nothing of it is touched on a worker.
    Remote,
    /// A kernel without RESOLVE_CACHED: whether a lookup would wait cannot be asked.
    NoResolveCached,
    /// The name is not in the kernel's cache of names (EAGAIN under RESOLVE_CACHED).
    ColdName,
    /// Behind another mount, or outside: the pool tells the two apart.
    Mount,
    /// A directory that may be passed and not be listed, or that is closed.
    Permission,
    /// The tag is a hash of a content that was not read yet.
    ContentTag,
    /// The data is not in the page cache.
    ColdData,
    /// A file system that cannot say whether a read would wait (overlayfs).
    NoNowait,
    /// The names of a directory are read, sorted and written down.
    Listing,
    /// The file is being compressed.
    Compress,
}

impl Why {
    /// All of them, in the order of their numbers.
    pub const ALL: [Why; 10] = [
        Why::Remote,
        Why::NoResolveCached,
        Why::ColdName,
        Why::Mount,
        Why::Permission,
        Why::ContentTag,
        Why::ColdData,
        Why::NoNowait,
        Why::Listing,
        Why::Compress,
    ];

    /// As it is written in labels and attributes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Why::Remote => "remote",
            Why::NoResolveCached => "no_resolve_cached",
            Why::ColdName => "cold_name",
            Why::Mount => "mount",
            Why::Permission => "permission",
            Why::ContentTag => "content_tag",
            Why::ColdData => "cold_data",
            Why::NoNowait => "no_nowait",
            Why::Listing => "listing",
            Why::Compress => "compress",
        }
    }

    /// What it means, for the documentation.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Why::Remote => "the file system may hang (FUSE, NFS and the like), so no worker touches it",
            Why::NoResolveCached => "the kernel has no RESOLVE_CACHED (before 5.12)",
            Why::ColdName => "the name was not in the kernel's cache, or was being renamed",
            Why::Mount => "the path leads to another mount or out of the root",
            Why::Permission => "a directory on the way is closed or may only be passed",
            Why::ContentTag => "the file has no useful time, and its content had to be hashed for the ETag",
            Why::ColdData => "the data was not in the page cache",
            Why::NoNowait => "the file system cannot say whether a read would wait (overlayfs)",
            Why::Listing => "a directory was listed",
            Why::Compress => "the file was being compressed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_names_are_apart() {
        for (place, why) in Why::ALL.iter().enumerate() {
            assert_eq!(*why as usize, place);
            assert_eq!(Why::ALL.iter().filter(|other| other.name() == why.name()).count(), 1);
        }
    }
}
