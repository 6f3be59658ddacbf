//! Requests that are refused while too few succeed.

use serde::{Deserialize, Serialize};

use crate::api::text::{DurationText, is_default, open_enum};

/// Requests are refused while too few of the last ones succeed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionControl {
    /// Time of the last ones; 30 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_window: Option<DurationText>,
    /// Percent that must succeed; 95 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_success_rate: Option<u32>,
    /// How fast refusals grow; 1 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rejection_aggression: Option<u32>,
    /// Requests in a second below which none is refused; 0 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_request_rate: Option<u32>,
    /// Percent that are refused at most; 80 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_rejection_percent: Option<u32>,
    /// What success is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success_criteria: Option<SuccessCriteria>,
}

/// What success is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessCriteria {
    /// Of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<HttpSuccess>,
    /// Of calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc: Option<GrpcSuccess>,
}

/// Codes that count as success.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpSuccess {
    /// The codes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_codes: Box<[u16]>,
}

/// Statuses of gRPC that count as success.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcSuccess {
    /// The statuses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_codes: Box<[GrpcStatus]>,
}

open_enum! {
    /// A status of gRPC, in the order of their numbers.
    pub enum GrpcStatus {
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
