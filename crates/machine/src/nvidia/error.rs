//! Errors of the GPU's crates as the pipelines pass them on: with their own words and codes.

use checkpoint_cuda::CudaError;
use gpu_detect::DetectError;
use gpu_plan::GpuPlanError;
use lifecycle::LifecycleError;
use lifecycle::ports::{EngineError, Means};

/// For `map_err`: what the driver says.
pub(super) fn cuda(error: CudaError) -> LifecycleError {
    let means = match &error {
        CudaError::Ended { .. } => Means::ProcessGone,
        CudaError::Lost { .. } | CudaError::Wedged { .. } => Means::Lost,
        _ => Means::Failure,
    };
    EngineError::new(error.code(), error.class(), error.hint(), means, error).into()
}

fn detect(error: DetectError) -> LifecycleError {
    let means = match &error {
        DetectError::NoProcess { .. } => Means::ProcessGone,
        _ => Means::Failure,
    };
    EngineError::new(error.code(), error.class(), error.hint(), means, error).into()
}

/// For `map_err`: what stands in the way of a plan.
pub(super) fn planning(error: GpuPlanError) -> LifecycleError {
    match error {
        GpuPlanError::Cuda(error) => cuda(error),
        GpuPlanError::Detect(error) => detect(error),
        GpuPlanError::Sandbox(error) => error.into(),
        GpuPlanError::Refused { problems } => LifecycleError::Preflight { problems },
        GpuPlanError::NoSuchGpu { detail } => LifecycleError::BadRequest { detail },
        GpuPlanError::NoProgram { looked } => LifecycleError::NoGpuProgram { looked },
        GpuPlanError::StrangeNumber { .. } => LifecycleError::Bug(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_gpus_has_the_codes_that_it_always_had() {
        let detail = || "it has none".to_owned();
        let errors = [
            (planning(GpuPlanError::Refused { problems: Vec::new() }), "IJ-L040"),
            (planning(GpuPlanError::NoSuchGpu { detail: detail() }), "IJ-L015"),
            (planning(GpuPlanError::NoProgram { looked: Vec::new() }), "IJ-L084"),
            (planning(GpuPlanError::StrangeNumber { number: -1 }), "IJ-L099"),
            (planning(CudaError::Ended { pid: 7 }.into()), CudaError::Ended { pid: 7 }.code()),
        ];
        for (error, code) in errors {
            assert_eq!(error.code(), code, "{error}");
        }
    }

    #[test]
    fn an_error_of_the_driver_keeps_its_words_class_and_way_out() {
        let said = || CudaError::Frozen { pid: 7, how: "stopped by a signal".to_owned() };
        let (own, passed_on) = (said(), cuda(said()));
        assert_eq!(passed_on.to_string(), own.to_string());
        assert_eq!((passed_on.class(), passed_on.hint()), (own.class(), own.hint()));
    }
}
