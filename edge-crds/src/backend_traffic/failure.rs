//! Failures on purpose, and refusals because of failures.

use crate::number::HttpStatus;
use crate::text::DurationText;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Failures on purpose.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.delay) || has(self.abort)", "Delay and abort faults are set at least one."))]
pub struct FaultInjection {
    /// Delays requests.
    pub delay: Option<FaultInjectionDelay>,
    /// Answers requests with a failure.
    pub abort: Option<FaultInjectionAbort>,
}

/// Delays on purpose.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FaultInjectionDelay {
    /// How long.
    pub fixed_delay: DurationText,
    /// Share of the requests, in percent.
    #[schemars(extend("default" = 100))]
    pub percentage: Option<f32>,
}

/// Failing answers on purpose.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.httpStatus) && has(self.grpcStatus))", "httpStatus and grpcStatus cannot be simultaneously defined."))]
#[x_kube(validation = ("has(self.httpStatus) || has(self.grpcStatus)", "httpStatus and grpcStatus are set at least one."))]
pub struct FaultInjectionAbort {
    /// Status of the answer.
    #[schemars(range(min = 200, max = 600))]
    pub http_status: Option<i32>,
    /// Status of the answer to gRPC.
    #[schemars(range(min = 0, max = 16))]
    pub grpc_status: Option<i32>,
    /// Share of the requests, in percent.
    #[schemars(extend("default" = 100))]
    pub percentage: Option<f32>,
}

/// Refuses requests of a backend that fails.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.samplingWindow) || duration(self.samplingWindow) >= duration('1s')", "samplingWindow must be at least 1s"))]
pub struct AdmissionControl {
    /// Time that is looked at; 30s when absent.
    pub sampling_window: Option<DurationText>,
    /// Share of successes, in percent, below which requests are refused; 95 when absent.
    #[schemars(range(min = 1, max = 100))]
    pub min_success_rate: Option<u32>,
    /// How steeply refusals grow; 1 when absent.
    #[schemars(range(min = 1))]
    pub rejection_aggression: Option<u32>,
    /// Requests a second below which nothing is refused; 0 when absent.
    #[schemars(range(min = 0))]
    pub min_request_rate: Option<u32>,
    /// Largest share that is refused, in percent; 80 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub max_rejection_percent: Option<u32>,
    /// What counts as a success.
    pub success_criteria: Option<AdmissionControlSuccessCriteria>,
}

/// What counts as a success.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionControlSuccessCriteria {
    /// Of HTTP responses.
    pub http: Option<HttpSuccessCriteria>,
    /// Of gRPC responses.
    pub grpc: Option<GrpcSuccessCriteria>,
}

/// Statuses that count as a success.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSuccessCriteria {
    /// The statuses.
    pub status_codes: Option<Vec<HttpStatus>>,
}

/// gRPC statuses that count as a success.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcSuccessCriteria {
    /// The statuses.
    pub status_codes: Option<Vec<GrpcSuccessCode>>,
}

values! {
    /// Values of `GRPCSuccessCode`.
    pub enum GrpcSuccessCode {
        Ok = "Ok",
        Cancelled = "Cancelled",
        Unknown = "Unknown",
        InvalidArgument = "InvalidArgument",
        DeadlineExceeded = "DeadlineExceeded",
        NotFound = "NotFound",
        AlreadyExists = "AlreadyExists",
        PermissionDenied = "PermissionDenied",
        ResourceExhausted = "ResourceExhausted",
        FailedPrecondition = "FailedPrecondition",
        Aborted = "Aborted",
        OutOfRange = "OutOfRange",
        Unimplemented = "Unimplemented",
        Internal = "Internal",
        Unavailable = "Unavailable",
        DataLoss = "DataLoss",
        Unauthenticated = "Unauthenticated",
    }
}
