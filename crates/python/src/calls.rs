//! Calls of Python code, which may last until the interpreter ends.
//!
//! Python before 3.14 then ends a daemon thread with `pthread_exit`. With glibc that unwinds the stack, and the process
//! aborts at the first frame of Rust. So a thread in a [`Call`] waits for the end of the process instead, as it does in
//! Python 3.14. PyO3 does the same where a thread takes the interpreter lock.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use glibc::Call;

/// A call of Python code. No other system unwinds the stack of a thread that ends.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub struct Call;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
impl Call {
    pub fn begin() -> Self {
        Self
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::cell::{Cell, UnsafeCell};
    use std::ffi::{c_int, c_void};
    use std::marker::PhantomData;
    use std::ptr::null_mut;

    /// A handler of glibc, `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct Handler {
        run: Option<extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Handler,
    }

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            handler: *mut Handler,
            run: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(handler: *mut Handler, execute: c_int);
    }

    thread_local! {
        static CALLS: Calls = Calls {
            depth: Cell::new(0),
            handler: Box::new(UnsafeCell::new(Handler {
                run: None,
                argument: null_mut(),
                cancel_type: 0,
                previous: null_mut(),
            })),
        };
    }

    /// The calls of a thread. They may end in another order than they began: greenlets switch stacks.
    struct Calls {
        depth: Cell<usize>,
        /// On the heap: glibc runs a handler that is not on the stack before it unwinds the first frame.
        handler: Box<UnsafeCell<Handler>>,
    }

    /// A call of Python code, until it is dropped.
    pub struct Call(PhantomData<*mut ()>);

    impl Call {
        pub fn begin() -> Self {
            CALLS.with(|calls| {
                if calls.depth.replace(calls.depth.get() + 1) == 0 {
                    // SAFETY: the handler is not in use, and stays where it is until the thread ends.
                    unsafe { _pthread_cleanup_push(calls.handler.get(), wait, null_mut()) };
                }
            });
            Self(PhantomData)
        }
    }

    impl Drop for Call {
        fn drop(&mut self) {
            CALLS.with(|calls| {
                calls.depth.set(calls.depth.get() - 1);
                if calls.depth.get() == 0 {
                    // SAFETY: the first call of this thread pushed the handler.
                    unsafe { _pthread_cleanup_pop(calls.handler.get(), 0) };
                }
            });
        }
    }

    /// Waits for the end of the process.
    extern "C" fn wait(_: *mut c_void) {
        loop {
            std::thread::park();
        }
    }
}
