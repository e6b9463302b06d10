// libFuzzer target: any bytes as a message of a node (first byte even) or of the host. What is
// accepted can be sent on.
#include <cstddef>
#include <cstdint>

#include "proto/lr/v1/rendezvous.pb.h"

#include "launcher/rendezvous/wire.h"

namespace {

template <typename Wire>
void Check(const uint8_t* data, size_t size) {
  Wire wire;
  if (wire.ParseFromArray(data, static_cast<int>(size))) {
    const auto message = lr::launcher::FromWire(wire);
    if (message.ok()) {
      (void)lr::launcher::ToWire(*message);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  if (data[0] % 2 == 0) {
    Check<lr::v1::NodeMessage>(data + 1, size - 1);
  } else {
    Check<lr::v1::HostMessage>(data + 1, size - 1);
  }
  return 0;
}
