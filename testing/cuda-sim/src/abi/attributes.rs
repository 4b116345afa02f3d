//! What `cuDeviceGetAttribute` answers: the public figures of the chips, and no to everything that the stand-in does not do.
use crate::code::{Code, Result};
use crate::wire::GpuInfo;

/// The last number in `cuda.h` 13.4.
const LAST: i32 = 161;

pub(super) fn attribute(gpu: &GpuInfo, attribute: i32) -> Result<i32> {
    let [major, minor] = gpu.capability;
    let data_centre = minor == 0;
    let value = match attribute {
        // Threads, blocks, grids.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        10 => 32,
        39 => {
            if data_centre {
                2048
            } else {
                1536
            }
        }
        106 => {
            if data_centre {
                32
            } else {
                24
            }
        }
        16 => gpu.processors.cast_signed(),
        // Memory in the chip.
        8 => 48 << 10,
        81 => match (major, minor) {
            (9, _) => 228 << 10,
            (8, 0) => 164 << 10,
            _ => 100 << 10,
        },
        97 => match (major, minor) {
            (9, _) => 227 << 10,
            (8, 0) => 163 << 10,
            _ => 99 << 10,
        },
        111 => 1 << 10,
        9 => 64 << 10,
        12 | 82 => 65_536,
        38 => match (major, minor) {
            (9, _) => 50 << 20,
            (8, 0) => 40 << 20,
            _ => 72 << 20,
        },
        108 => match (major, minor) {
            (9, _) => 32 << 20,
            (8, 0) => 30 << 20,
            _ => 49 << 20,
        },
        109 => 128 << 20,
        // Clocks in kHz, the bus in bits.
        13 => match (major, minor) {
            (9, _) => 1_980_000,
            (8, 0) => 1_410_000,
            _ => 2_520_000,
        },
        36 => match (major, minor) {
            (9, _) => 2_619_000,
            (8, 0) => 1_215_000,
            _ => 10_501_000,
        },
        37 => {
            if data_centre {
                5120
            } else {
                384
            }
        }
        // Alignments and sizes of textures.
        11 => i32::MAX,
        14 | 30 => 512,
        51 => 32,
        21 | 22 | 55 | 56 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32_768,
        29 | 43 | 54 | 62 | 65 | 68 => 2048,
        69 => 268_435_456,
        70 => 131_072,
        71 => 65_000,
        72 => 2_097_120,
        // Where it is.
        33 => gpu.pci[1].cast_signed(),
        34 => gpu.pci[2].cast_signed(),
        50 => gpu.pci[0].cast_signed(),
        139 => gpu.pci_id.cast_signed(),
        75 => major.cast_signed(),
        76 => minor.cast_signed(),
        40 => {
            if data_centre {
                3
            } else {
                2
            }
        }
        87 => {
            if data_centre {
                2
            } else {
                64
            }
        }
        32 => data_centre.into(),
        // Can do: overlap, map host memory, concurrent kernels, one address space, priorities, caches, preemption, host
        // pointers for registered memory, optional launches, host registration, VMM and its handles as file descriptors
        // (see vmm.rs), memory pools, function pointers.
        15 | 19 | 31 | 41 | 78..=80 | 90 | 91 | 95 | 99 | 102 | 103 | 115 | 129 => 1,
        // Numbers of NUMA nodes: none.
        131 | 134 => -1,
        number if (1..=LAST).contains(&number) => 0,
        _ => return Err(Code::INVALID_VALUE),
    };
    Ok(value)
}
