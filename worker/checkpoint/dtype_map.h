#pragma once
/// torch scalar types <-> safetensors dtypes; used by the reader and the writer of tensors
/// only.

#include <optional>

#include <c10/core/ScalarType.h>

#include "worker/checkpoint/safetensors_header.h"

namespace lr::worker {

/// Nullopt for types that the format does not name (complex128, quantised, …).
std::optional<SafetensorsDtype> ToSafetensors(c10::ScalarType type);

/// Nullopt for dtypes that torch does not have (F6…).
std::optional<c10::ScalarType> FromSafetensors(SafetensorsDtype dtype);

}  // namespace lr::worker
