//! Which files mean a GPU.
//!
//! Names are matched, not device numbers: only 195 (`nvidia`) is fixed, `nvidia-uvm` and `gdrdrv` get whatever is free. A
//! process in a chroot shows its `/dev` below some directory, so what counts begins after the last `/dev/`.

/// What a mapped or open file is, as far as GPUs go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    /// `/dev/nvidiactl`.
    Control,
    /// `/dev/nvidia-uvm`.
    Uvm,
    /// `/dev/nvidia-uvm-tools`.
    UvmTools,
    /// `/dev/nvidiaN`.
    Gpu(u32),
    /// `/dev/nvidia-modeset`.
    Modeset,
    /// `/dev/nvidia-caps/nvidia-capN`.
    Capability(u32),
    /// `/dev/gdrdrv`.
    Gdrdrv,
    /// `/dev/infiniband/uverbsN`.
    Verbs,
    /// `…/resourceN` of a PCI device in `/sys`.
    PciWindow,
    /// `libcuda.so…`, the driver's half of CUDA.
    CudaLibrary,
    /// `libnvidia-ml.so…`.
    NvmlLibrary,
    /// A library of the driver for OpenGL, EGL or Vulkan.
    GraphicsLibrary,
    /// Another library of the driver.
    DriverLibrary,
    /// `/memfd:/.nvidia_drv.…`.
    GraphicsMemory,
    /// `/dev/shm/nccl-…`.
    NcclShared,
    /// `/dev/shm/cuda.shm.…`.
    CudaShared,
    /// `/dev/shm/torch_…`.
    TorchShared,
    /// `mps.shm.…`.
    MpsShared,
    /// `socket:[inode]`.
    Socket(u64),
}

impl Object {
    /// Judges the path of a mapping, or the target of a link in `/proc/PID/fd`.
    pub fn of(path: &[u8]) -> Option<Self> {
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        if let Some(rest) = path.strip_prefix(b"socket:[") {
            return number(rest.strip_suffix(b"]")?).map(Self::Socket);
        }
        let name = &path[path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)..];
        if let Some(rest) = name.strip_prefix(b"lib") {
            return library(rest);
        }
        if name.starts_with(b".nvidia_drv") {
            return path.starts_with(b"/memfd:").then_some(Self::GraphicsMemory);
        }
        if name.starts_with(b"mps.shm.") {
            return Some(Self::MpsShared);
        }
        if name == b"nvidia_drv.so" {
            return Some(Self::GraphicsLibrary);
        }
        if let Some(rest) = name.strip_prefix(b"resource") {
            let window = rest.strip_suffix(b"_wc").unwrap_or(rest);
            return (path.starts_with(b"/sys/") && number(window).is_some()).then_some(Self::PciWindow);
        }
        device(path)
    }

    /// Whether it alone makes a process worth a closer look.
    pub const fn means_gpu(self) -> bool {
        !matches!(self, Self::Socket(_) | Self::TorchShared | Self::NcclShared | Self::Verbs)
    }

    /// Whether it is a device of NVIDIA's driver, which CRIU cannot dump.
    pub const fn is_device(self) -> bool {
        matches!(
            self,
            Self::Control | Self::Uvm | Self::UvmTools | Self::Gpu(_) | Self::Modeset | Self::Capability(_)
        )
    }

    #[cfg(target_os = "linux")]
    pub(crate) const fn socket(self) -> Option<u64> {
        match self {
            Self::Socket(inode) => Some(inode),
            _ => None,
        }
    }

    /// Whether one mapping of it says as much as all.
    pub(crate) const fn is_library(self) -> bool {
        matches!(self, Self::CudaLibrary | Self::NvmlLibrary | Self::GraphicsLibrary | Self::DriverLibrary)
    }
}

fn library(after_lib: &[u8]) -> Option<Object> {
    const GRAPHICS: &[&[u8]] =
        &[b"GLX_nvidia.so", b"EGL_nvidia.so", b"nvidia-glcore.so", b"nvidia-eglcore.so"];
    if after_lib.starts_with(b"cuda.so") {
        return Some(Object::CudaLibrary);
    }
    if after_lib.starts_with(b"nvidia-ml.so") {
        return Some(Object::NvmlLibrary);
    }
    if GRAPHICS.iter().any(|name| after_lib.starts_with(name)) {
        return Some(Object::GraphicsLibrary);
    }
    after_lib.starts_with(b"nvidia-").then_some(Object::DriverLibrary)
}

fn device(path: &[u8]) -> Option<Object> {
    const DEV: &[u8] = b"/dev/";
    let at = path.windows(DEV.len()).rposition(|window| window == DEV)?;
    let name = &path[at + DEV.len()..];
    if let Some(rest) = name.strip_prefix(b"nvidia") {
        return match rest {
            b"ctl" => Some(Object::Control),
            b"-uvm" => Some(Object::Uvm),
            b"-uvm-tools" => Some(Object::UvmTools),
            b"-modeset" => Some(Object::Modeset),
            _ => match rest.strip_prefix(b"-caps/nvidia-cap") {
                Some(rest) => small(rest).map(Object::Capability),
                None => small(rest).map(Object::Gpu),
            },
        };
    }
    if let Some(shared) = name.strip_prefix(b"shm/") {
        let begins = |with: &[u8]| shared.starts_with(with);
        return match () {
            () if begins(b"nccl-") => Some(Object::NcclShared),
            () if begins(b"cuda.shm.") => Some(Object::CudaShared),
            () if begins(b"torch_") => Some(Object::TorchShared),
            () => None,
        };
    }
    if name.starts_with(b"infiniband/uverbs") {
        return Some(Object::Verbs);
    }
    (name == b"gdrdrv").then_some(Object::Gdrdrv)
}

fn small(digits: &[u8]) -> Option<u32> {
    number(digits).and_then(|value| value.try_into().ok())
}

fn number(digits: &[u8]) -> Option<u64> {
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_mean_something() {
        for (path, expected) in [
            ("/dev/nvidiactl", Object::Control),
            ("/dev/nvidia-uvm", Object::Uvm),
            ("/dev/nvidia-uvm-tools", Object::UvmTools),
            ("/dev/nvidia0", Object::Gpu(0)),
            ("/dev/nvidia17", Object::Gpu(17)),
            ("/srv/root/dev/nvidia3", Object::Gpu(3)),
            ("/dev/nvidia-modeset", Object::Modeset),
            ("/dev/nvidia-caps/nvidia-cap21", Object::Capability(21)),
            ("/dev/gdrdrv", Object::Gdrdrv),
            ("/dev/infiniband/uverbs0", Object::Verbs),
            ("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/resource1_wc", Object::PciWindow),
            ("/sys/bus/pci/devices/0000:3b:00.0/resource0", Object::PciWindow),
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05", Object::CudaLibrary),
            ("/usr/lib/libcuda.so.1 (deleted)", Object::CudaLibrary),
            ("/usr/lib/libnvidia-ml.so.580.95.05", Object::NvmlLibrary),
            ("/usr/lib/libnvidia-glcore.so.440.82", Object::GraphicsLibrary),
            ("/usr/lib/libnvidia-cfg.so.1", Object::DriverLibrary),
            ("/memfd:/.nvidia_drv.XXXXXX (deleted)", Object::GraphicsMemory),
            ("/dev/shm/nccl-onFp46", Object::NcclShared),
            ("/dev/shm/nccl-shm-recv-8f2-0-3-0 (deleted)", Object::NcclShared),
            ("/dev/shm/cuda.shm.0.4242.1", Object::CudaShared),
            ("/dev/shm/torch_4242_1234_0 (deleted)", Object::TorchShared),
            ("/dev/shm/mps.shm.0.4242", Object::MpsShared),
            ("socket:[4242]", Object::Socket(4242)),
        ] {
            assert_eq!(Object::of(path.as_bytes()), Some(expected), "{path}");
        }
    }

    #[test]
    fn names_that_mean_nothing() {
        for path in [
            "",
            "/",
            "/dev/null",
            "/dev/zero (deleted)",
            "/dev/nvidia",
            "/dev/nvidia0x",
            "/home/ada/nvidia0",
            "/usr/lib/libcudart.so.12",
            "/home/ada/resource1",
            "/sys/devices/resource",
            "/home/ada/.nvidia_drv.txt",
            "pipe:[4242]",
            "socket:[x]",
            "anon_inode:[eventpoll]",
        ] {
            assert_eq!(Object::of(path.as_bytes()), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Object::of(&bytes);
        }

        #[test]
        fn no_name_makes_it_panic(name in "(/dev/|/sys/|socket:|/memfd:/|lib)?(nvidia|shm/|resource|cuda)?[ -~]{0,12}") {
            let _ = Object::of(name.as_bytes());
        }
    }
}
