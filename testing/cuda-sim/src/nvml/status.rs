//! NVML's result codes (`nvmlReturn_t`) and their texts.
use std::ffi::CStr;

use crate::code::Code;

/// An `nvmlReturn_t` other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

/// What a call of the management library gives.
pub type Result<T> = std::result::Result<T, Status>;

macro_rules! statuses {
    ($($number:literal $name:ident $text:literal)*) => {
        /// The codes of `nvml.h` by their names there, without `NVML_ERROR_`.
        impl Status {
            $(#[doc = $text] pub const $name: Self = Self($number);)*
        }
        const TEXTS: &[(i32, &CStr)] = &[
            $(($number, match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => c"",
            })),*
        ];
    };
}

impl Status {
    /// The text of `nvmlErrorString`.
    #[must_use]
    pub fn text(self) -> &'static CStr {
        TEXTS.iter().find(|row| row.0 == self.0).map_or(c"Unknown Error", |row| row.1)
    }
}

/// Pointers are shared with the driver's interface, whose code for NULL is another.
impl From<Code> for Status {
    fn from(code: Code) -> Self {
        match code {
            Code::INVALID_VALUE => Self::INVALID_ARGUMENT,
            Code::NOT_PERMITTED => Self::NO_PERMISSION,
            _ => Self::UNKNOWN,
        }
    }
}

statuses! {
    0 SUCCESS "The operation was successful"
    1 UNINITIALIZED "Uninitialized"
    2 INVALID_ARGUMENT "Invalid Argument"
    3 NOT_SUPPORTED "Not Supported"
    4 NO_PERMISSION "Insufficient Permissions"
    5 ALREADY_INITIALIZED "Already Initialized"
    6 NOT_FOUND "Not Found"
    7 INSUFFICIENT_SIZE "Insufficient Size"
    8 INSUFFICIENT_POWER "Insufficient External Power"
    9 DRIVER_NOT_LOADED "Driver Not Loaded"
    10 TIMEOUT "Timeout"
    11 IRQ_ISSUE "Interrupt Request Issue"
    12 LIBRARY_NOT_FOUND "NVML Shared Library Not Found"
    13 FUNCTION_NOT_FOUND "Function Not Found"
    14 CORRUPTED_INFOROM "Corrupted infoROM"
    15 GPU_IS_LOST "GPU is lost"
    16 RESET_REQUIRED "GPU requires reset"
    17 OPERATING_SYSTEM "Operating System Blocked The Request"
    18 LIB_RM_VERSION_MISMATCH "RM has detected an NVML/RM version mismatch."
    19 IN_USE "GPU is in use"
    20 MEMORY "Insufficient memory"
    21 NO_DATA "No data"
    22 VGPU_ECC_NOT_SUPPORTED "vGPU ECC not supported"
    23 INSUFFICIENT_RESOURCES "Insufficient resources"
    24 FREQ_NOT_SUPPORTED "Frequency not supported"
    25 ARGUMENT_VERSION_MISMATCH "Argument version mismatch"
    26 DEPRECATED "Deprecated"
    27 NOT_READY "Not ready"
    28 GPU_NOT_FOUND "GPU not found"
    29 INVALID_STATE "Invalid state"
    30 RESET_TYPE_NOT_SUPPORTED "Reset type not supported"
    999 UNKNOWN "Unknown Error"
}
