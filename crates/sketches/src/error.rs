//! Texts of errors, for programs that use the library. Those of commands are in the crate `protocol`.

/// Implements `Display` and `Error` for an enum: a text for each variant.
macro_rules! texts {
    ($error:ty { $($variant:pat => $text:expr),+ $(,)? }) => {
        impl $error {
            pub(crate) const fn text(&self) -> &'static str {
                match self { $($variant => $text),+ }
            }
        }

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }

        impl std::error::Error for $error {}
    };
}

pub(crate) use texts;

/// The reason that a count-min sketch or a top-k list is not created, or that an item is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sketch would exceed the limit on its memory.
    MemoryLimit,
    /// The memory can't be allocated.
    OutOfMemory,
}

texts!(Refusal {
    Self::MemoryLimit => "it would exceed the limit on memory",
    Self::OutOfMemory => "not enough memory",
});
