//! The program `valkeybloom`: see [`valkeybloom::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    valkeybloom::cli::main()
}
