//! The clock and the random numbers: those of the system, or of the JavaScript around a WebAssembly.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod system {
    use std::time::{SystemTime, UNIX_EPOCH};

    use crate::{Code, Error};

    /// Returns the milliseconds since the epoch.
    pub fn now_ms() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns bytes that can't be guessed.
    pub fn random() -> Result<[u8; 32], Error> {
        let mut bytes = [0; 32];
        let filled = getrandom::fill(&mut bytes);
        filled.map_err(|_| Error::new(Code::Refused, "the system has no random numbers"))?;
        Ok(bytes)
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod system {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::Error;

    #[link(wasm_import_module = "host")]
    // SAFETY: the package for JavaScript has a function of this type, which touches no memory.
    unsafe extern "C" {
        /// Returns 64 random bits, which can't be guessed.
        safe fn random_bits() -> u64;
    }

    static NOW_MS: AtomicU64 = AtomicU64::new(0);

    /// Sets the clock. JavaScript does before each call about a window, because its own clock may be any code, which
    /// can't run while an object is locked.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time before the epoch is 0"
    )]
    #[unsafe(no_mangle)]
    pub extern "C" fn valkeybloom_set_time(now_ms: f64) {
        NOW_MS.store(now_ms as u64, Ordering::Relaxed);
    }

    pub fn now_ms() -> u64 {
        NOW_MS.load(Ordering::Relaxed)
    }

    #[allow(clippy::unnecessary_wraps, reason = "other systems may have none")]
    pub fn random() -> Result<[u8; 32], Error> {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&random_bits().to_le_bytes());
        }
        Ok(bytes)
    }
}

pub use system::{now_ms, random};
