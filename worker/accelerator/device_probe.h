#pragma once
/// What the linked LibTorch can use on this machine. Creates no device context.

#include "worker/accelerator/device_choice.h"

namespace lr::worker {

DeviceInventory ProbeDevices();

}  // namespace lr::worker
