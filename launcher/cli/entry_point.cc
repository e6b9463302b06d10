#include "launcher/cli/entry_point.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "common/base/text.h"
#include "common/contract/native_script.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;

/// Names of our trainer: guarded against foreign variables and spoken to over the worker protocol.
constexpr std::string_view kTrainer = "lr-train";

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsExecutable(const fs::path& path) {
  return IsFile(path) && access(path.c_str(), X_OK) == 0;
}

Result<std::string> ReadHead(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return PermissionDenied("cannot read {}: check its permissions", path.string());
  }
  std::string head(kNativeScriptSearchBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

std::optional<std::string> FindInPath(const std::string& name,
                                      const EnvironmentReader& environment) {
  for (const std::string& folder :
       Split(environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (IsExecutable(candidate)) {
      return candidate.string();
    }
  }
  return std::nullopt;
}

/// L-9: PYTHON_EXEC, the active environment's python, python3, python.
Result<std::string> FindPython(const EnvironmentReader& environment) {
  if (const std::optional<std::string> exec = environment("PYTHON_EXEC"); exec && !exec->empty()) {
    const std::optional<std::string> found =
        exec->find('/') == std::string::npos ? FindInPath(*exec, environment) : exec;
    if (!found || !IsExecutable(*found)) {
      return NotFound("PYTHON_EXEC={} is not an executable file", *exec);
    }
    return *found;
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::optional<std::string> prefix = environment(variable);
    if (prefix && !prefix->empty() && IsExecutable(fs::path(*prefix) / "bin/python")) {
      return (fs::path(*prefix) / "bin/python").string();
    }
  }
  for (const char* name : {"python3", "python"}) {
    if (const std::optional<std::string> found = FindInPath(name, environment)) {
      return *found;
    }
  }
  return NotFound(
      "no Python interpreter: neither PYTHON_EXEC nor an active environment nor python3 in PATH; "
      "use --no-python to execute PROGRAM itself");
}

/// L-11: the working directory first, then PATH for plain names.
Result<std::string> LocateProgram(const std::string& name, const EnvironmentReader& environment) {
  std::error_code error;
  const bool here = fs::exists(name, error);
  const bool by_path = name.find('/') != std::string::npos || name.ends_with(".py");
  if (here && (by_path || IsFile(name))) {
    return name;
  }
  if (!by_path) {
    if (std::optional<std::string> found = FindInPath(name, environment)) {
      return *std::move(found);
    }
  }
  if (here) {
    return name;
  }
  return NotFound("program '{}' does not exist{}",
                  name,
                  by_path ? fmt::format(" (working directory {})", fs::current_path(error).string())
                          : ": neither in the working directory nor in PATH");
}

/// A path that exec takes as it is: PATH is not searched again.
std::string ExecPath(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

ProgramPlan Plan(const EntryPointRequest& request,
                 std::string executable,
                 std::vector<std::string> argv,
                 std::string kind) {
  const size_t first_argument = argv.size();
  argv.insert(argv.end(), request.program.begin() + 1, request.program.end());
  return {.given = request.program[0],
          .executable = std::move(executable),
          .argv = std::move(argv),
          .first_argument = first_argument,
          .native = false,
          .kind = std::move(kind)};
}

Result<ProgramPlan> WithPython(const EntryPointRequest& request,
                               std::vector<std::string> python_arguments,
                               const std::string& kind,
                               const EnvironmentReader& environment) {
  LR_ASSIGN(const std::string python, FindPython(environment));
  python_arguments.insert(python_arguments.begin(), {python, "-u"});
  return Plan(request, python, std::move(python_arguments), kind);
}

Result<ProgramPlan> Executed(const EntryPointRequest& request,
                             const std::string& path,
                             const std::string& kind) {
  if (!IsExecutable(path)) {
    return PermissionDenied(
        "program '{}' is not an executable file: chmod +x it, or leave --no-python out", path);
  }
  ProgramPlan plan = Plan(request, ExecPath(path), {request.program[0]}, kind);
  std::error_code error;
  plan.native = fs::weakly_canonical(path, error).filename() == kTrainer;
  return plan;
}

/// The program that the script of a documented name stands for, started directly.
Result<ProgramPlan> NativeScript(const EntryPointRequest& request,
                                 const std::string& path,
                                 std::string_view head) {
  std::error_code error;
  const fs::path program = fs::canonical(path, error).parent_path() / *NativeScriptProgram(head);
  if (error || !IsExecutable(program)) {
    return NotFound(
        "script '{}' stands for the program {}, which is not there: is the installation complete?",
        path,
        program.string());
  }
  ProgramPlan plan = Plan(request, program.string(), {program.string()}, "native program");
  plan.native = program.filename() == kTrainer;
  return plan;
}

/// --run-path: PATH is not searched and the first line is not looked at.
Result<ProgramPlan> RunPath(const EntryPointRequest& request,
                            const EnvironmentReader& environment) {
  const std::string& path = request.program.at(0);
  if (!IsFile(path)) {
    return NotFound("--run-path: the script '{}' does not exist", path);
  }
  return WithPython(request, {path}, "python script", environment);
}

/// The first word after "#!" and, behind env, its first argument that is no option or assignment.
std::string InterpreterName(std::string_view head) {
  const std::string line(Trim(head.substr(2, head.find('\n') - 2)));
  std::string name;
  for (const std::string& word : Split(line, ' ')) {
    if (word.empty() ||
        (!name.empty() && (word[0] == '-' || word.find('=') != std::string::npos))) {
      continue;
    }
    const bool was_env = name == "env";
    if (!name.empty() && !was_env) {
      break;
    }
    name = word.substr(word.rfind('/') + 1);
  }
  return name;
}

}  // namespace

ProgramKind ClassifyProgram(std::string_view head) {
  if (head.starts_with("\x7f"
                       "ELF")) {
    return ProgramKind::kElf;
  }
  if (NativeScriptProgram(head)) {
    return ProgramKind::kNativeScript;
  }
  if (!head.starts_with("#!")) {
    return ProgramKind::kUnmarked;
  }
  const std::string interpreter = InterpreterName(head);
  const bool python = interpreter.starts_with("python") || interpreter.starts_with("pypy");
  return python ? ProgramKind::kPythonScript : ProgramKind::kOtherScript;
}

Result<ProgramPlan> ResolveEntryPoint(const EntryPointRequest& request,
                                      const EnvironmentReader& environment) {
  const std::string& name = request.program.at(0);
  if (request.module && request.run_path) {
    return InvalidArgument(
        "--module and --run-path exclude each other: PROGRAM is a name or a path");
  }
  if (request.module && request.no_python) {
    return InvalidArgument(
        "--module and --no-python exclude each other: a module needs the interpreter");
  }
  if (request.run_path) {
    return RunPath(request, environment);
  }
  if (request.module) {
    return WithPython(request, {"-m", name}, "python module", environment);
  }
  LR_ASSIGN(const std::string path, LocateProgram(name, environment));
  std::string head;
  if (IsFile(path)) {
    LR_ASSIGN(head, ReadHead(path));
  } else if (request.no_python) {
    return PermissionDenied("program '{}' is not a file", path);
  }
  const ProgramKind kind = ClassifyProgram(head);
  if (kind == ProgramKind::kNativeScript) {
    return NativeScript(request, path, head);
  }
  if (kind == ProgramKind::kElf) {
    return Executed(request, path, "native program");
  }
  if (request.no_python || kind == ProgramKind::kOtherScript) {
    return Executed(request, path, "executable");
  }
  return WithPython(request, {path}, "python script", environment);
}

}  // namespace lr::launcher
