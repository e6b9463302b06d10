#include "common/contract/error_file.h"

#include <unistd.h>

#include <fmt/format.h>

#include "common/io/atomic_file.h"
#include "common/io/json.h"

namespace lr {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

/// {"message": "text", …} or {"message": {"message": "text", "extraInfo": {"py_callstack": "…"}}}
Result<std::string> MessageOf(const Json& document) {
  const auto message = document.is_object() ? document.find("message") : document.end();
  if (!document.is_object() || message == document.end()) {
    return InvalidArgument("it has no \"message\"");
  }
  if (message->is_string()) {
    return message->get<std::string>();
  }
  if (!message->is_object()) {
    return InvalidArgument("its \"message\" is neither text nor an object");
  }
  const auto extra = message->find("extraInfo");
  if (extra != message->end() && extra->is_object()) {
    const auto stack = extra->find("py_callstack");
    if (stack != extra->end() && stack->is_string()) {
      return stack->get<std::string>();
    }
  }
  const auto text = message->find("message");
  if (text == message->end() || !text->is_string()) {
    return InvalidArgument("its \"message\" object holds no text");
  }
  return text->get<std::string>();
}

Result<std::string> Read(const std::string& path) {
  LR_ASSIGN(const Json document, ReadJsonFile(path, {.max_bytes = kMaxBytes, .max_depth = 16}));
  return MessageOf(document);
}

}  // namespace

std::string ReadErrorFile(const std::string& path) {
  if (path.empty() || access(path.c_str(), F_OK) != 0) {
    return "";
  }
  const Result<std::string> message = Read(path);
  return message.ok()
             ? *message
             : fmt::format("(error file {} is not readable: {})", path, message.status().message());
}

Status WriteErrorFile(const std::string& path, const ErrorReport& report) {
  Json document;
  document["message"]["message"] = report.message;
  document["message"]["errorCode"] = report.exit_code;
  document["message"]["extraInfo"]["py_callstack"] =
      report.details.empty() ? report.message : report.details;
  document["message"]["extraInfo"]["timestamp"] =
      std::to_string(report.unix_s);  // a text, as torchrun writes it
  return WriteFileAtomic(path, DumpPythonJson(document, -1)).WithContext("error file");
}

}  // namespace lr
