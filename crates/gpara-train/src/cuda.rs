//! The device to train on.
#![expect(unsafe_code, reason = "loading a shared library runs its initialisers")]

use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use tch::Device;

/// The first CUDA device, or the CPU where there is none.
///
/// The linker drops `libtorch_cuda`, as nothing names a symbol of it; libtorch finds CUDA only once it is loaded.
pub fn best_device() -> Device {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the library is libtorch's own, of the version that this program is linked to (same folder on the
        // search path); its initialisers register kernels and need nothing from us. It is never unloaded.
        unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOW | RTLD_GLOBAL) }.ok()
    });
    Device::cuda_if_available()
}
