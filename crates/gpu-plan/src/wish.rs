//! From what people write (`0`, `GPU-5a…`) to UUIDs.

use gpu_detect::{Host, HostGpu};

use crate::error::{GpuPlanError, Result};

/// The GPUs that are meant, each by its index, its UUID or an unambiguous beginning of its UUID; each once, in the order of the list.
pub fn resolve(names: &[String], host: &Host) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let uuid = one(name, host)?;
        if !found.contains(&uuid) {
            found.push(uuid);
        }
    }
    Ok(found)
}

fn one(name: &str, host: &Host) -> Result<String> {
    let wrong = |detail: String| Err(GpuPlanError::NoSuchGpu { detail });
    let list = |gpus: &[&HostGpu]| {
        let names: Vec<String> = gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.uuid)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let word = name.trim();
    let fits: Vec<&HostGpu> = match word.parse::<u32>() {
        Ok(index) => host.gpus.iter().filter(|gpu| gpu.index == index).collect(),
        Err(_) => {
            let begins = |gpu: &&HostGpu| {
                let uuid = gpu.uuid.to_ascii_lowercase();
                let word = word.to_ascii_lowercase();
                uuid == word || (word.len() > "gpu-".len() && uuid.starts_with(&word))
            };
            host.gpus.iter().filter(begins).collect()
        }
    };
    match fits.as_slice() {
        [gpu] => Ok(gpu.uuid.clone()),
        [] => {
            let all: Vec<&HostGpu> = host.gpus.iter().collect();
            wrong(format!("there is no GPU `{name}` here; there are: {}", list(&all)))
        }
        several => wrong(format!("`{name}` fits several GPUs: {}", list(several))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        let gpu = |index: u32, uuid: &str| HostGpu { index, uuid: uuid.to_owned(), ..HostGpu::default() };
        Host { gpus: vec![gpu(0, "GPU-aa11"), gpu(1, "GPU-aa22"), gpu(2, "GPU-0b33")], ..Host::default() }
    }

    #[test]
    fn gpus_are_named_by_number_uuid_or_its_beginning() {
        let say = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            resolve(&names, &host())
        };
        assert_eq!(say(&["2", "GPU-AA11", "gpu-0b"]).unwrap(), ["GPU-0b33", "GPU-aa11"]);
        assert_eq!(say(&[]).unwrap(), Vec::<String>::new());
        for wrong in ["3", "GPU-aa", "GPU-ff", "GPU-", "", "-1", "all"] {
            let error = say(&[wrong]).unwrap_err();
            assert!(matches!(error, GpuPlanError::NoSuchGpu { .. }), "{wrong}: {error}");
        }
    }
}
