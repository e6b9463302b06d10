// libFuzzer target: any bytes as JSON and as YAML. What JSON accepts must be read again from its
// own dump.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/io/json.h"
#include "common/io/yaml_node.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lr::Result<lr::Json> json = lr::ParseJson(text);
  if (json.ok() && !lr::ParseJson(lr::DumpPythonJson(*json, 2)).ok()) {
    std::abort();
  }
  (void)lr::ParseYaml(text);
  return 0;
}
