//! Texts of errors, for programs that use the library. Those of commands are in the crate `protocol`.

/// Implements `Display` and `Error` for an enum: a text for each variant.
macro_rules! texts {
    ($error:ty { $($variant:pat => $text:expr),+ $(,)? }) => {
        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($variant => $text),+ })
            }
        }

        impl std::error::Error for $error {}
    };
}

pub(crate) use texts;
