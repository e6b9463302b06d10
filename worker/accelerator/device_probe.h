#pragma once
/// What the linked LibTorch can use on this machine. Creates no device context.

#include <c10/core/Device.h>

#include "worker/accelerator/device_choice.h"

namespace lr::worker {

DeviceInventory ProbeDevices();

/// Where tensors live for that choice.
c10::Device DeviceOf(const DeviceChoice& choice);

}  // namespace lr::worker
