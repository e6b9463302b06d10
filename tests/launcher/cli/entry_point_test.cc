#include "launcher/cli/entry_point.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/cli/machine_probe.h"
#include "tests/launcher/cli/map_environment.h"
#include "tests/support/status_matchers.h"

namespace lr::launcher {
namespace {

namespace fs = std::filesystem;
using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EntryPointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lr_entry_point_" + RandomId());
    fs::create_directories(folder_ / "bin");
    python_ = Write("bin/python3", "#!/bin/sh\n", true);
    variables_["PATH"] = (folder_ / "bin").string();
  }

  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text, bool executable = false) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    if (executable) {
      fs::permissions(path, fs::perms::owner_all);
    }
    return path.string();
  }

  Result<ProgramPlan> Resolve(const std::vector<std::string>& program,
                              bool module = false,
                              bool no_python = false) {
    return ResolveEntryPoint({.program = program, .module = module, .no_python = no_python},
                             MapEnvironment(variables_));
  }

  fs::path folder_;
  std::string python_;
  std::map<std::string, std::string> variables_;
};

const std::string kElfHead = std::string("\x7f") + "ELF";

TEST_F(EntryPointTest, PythonScriptRunsUnbuffered) {
  const std::string script = Write("train.py", "print(1)\n");
  const auto plan = Resolve({script, "--lr", "1"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->executable, python_);
  EXPECT_THAT(plan->argv, ElementsAre(python_, "-u", script, "--lr", "1"));
  EXPECT_EQ(plan->kind, "python script");
  EXPECT_FALSE(plan->native);
}

TEST_F(EntryPointTest, ModuleGoesToTheInterpreter) {
  EXPECT_THAT(Resolve({"pkg.train", "-h"}, true)->argv,
              ElementsAre(python_, "-u", "-m", "pkg.train", "-h"));
  EXPECT_THAT(Resolve({"x"}, true, true),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("exclude each other")));
}

TEST_F(EntryPointTest, RunPathIsAPythonScriptForCertain) {
  const std::string script = Write("train", "#!/bin/sh\n", true);
  EntryPointRequest request{.program = {script, "x"}, .no_python = true, .run_path = true};
  const auto plan = ResolveEntryPoint(request, MapEnvironment(variables_));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->argv, ElementsAre(python_, "-u", script, "x"));
  request.module = true;
  EXPECT_THAT(ResolveEntryPoint(request, MapEnvironment(variables_)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("exclude each other")));
  EXPECT_THAT(
      ResolveEntryPoint({.program = {"python3"}, .run_path = true}, MapEnvironment(variables_)),
      StatusIs(StatusCode::kNotFound, HasSubstr("script 'python3' does not exist")));
}

TEST_F(EntryPointTest, InterpreterFollowsTheActiveEnvironment) {
  const std::string script = Write("a.py", "");
  const std::string venv = Write("venv/bin/python", "", true);
  const std::string conda = Write("conda/bin/python", "", true);
  variables_["CONDA_PREFIX"] = (folder_ / "conda").string();
  EXPECT_EQ(Resolve({script})->executable, conda);
  variables_["VIRTUAL_ENV"] = (folder_ / "venv").string();
  EXPECT_EQ(Resolve({script})->executable, venv);
  variables_["PYTHON_EXEC"] = python_;
  EXPECT_EQ(Resolve({script})->executable, python_);
  variables_["PYTHON_EXEC"] = "/no/python";
  EXPECT_THAT(Resolve({script}),
              StatusIs(StatusCode::kNotFound, HasSubstr("PYTHON_EXEC=/no/python")));
}

TEST_F(EntryPointTest, MissingInterpreterIsOneClearError) {
  variables_["PATH"] = "/nowhere";
  EXPECT_THAT(Resolve({Write("a.py", "")}),
              StatusIs(StatusCode::kNotFound, HasSubstr("no Python interpreter")));
}

TEST_F(EntryPointTest, CompiledProgramsAreExecuted) {
  const std::string program = Write("prog", kElfHead, true);
  const auto plan = Resolve({program, "x"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->executable, program);
  EXPECT_THAT(plan->argv, ElementsAre(program, "x"));
  EXPECT_FALSE(plan->native);
  EXPECT_TRUE(Resolve({Write("lr-train", kElfHead, true)})->native);
}

TEST_F(EntryPointTest, ShebangDecides) {
  EXPECT_EQ(Resolve({Write("s1", "#!/usr/bin/env python3\n", true)})->kind, "python script");
  EXPECT_EQ(Resolve({Write("s2", "#!/opt/bin/python3.11 -O\n")})->kind, "python script");
  EXPECT_EQ(Resolve({Write("s3", "#!/usr/bin/env -S A=1 python\n")})->kind, "python script");
  EXPECT_EQ(Resolve({Write("s4", "#!/bin/bash\n", true)})->kind, "executable");
  EXPECT_EQ(Resolve({Write("s5", "#! /usr/bin/env bash\n", true)})->kind, "executable");
  EXPECT_EQ(Resolve({Write("s6", "import os\n")})->kind, "python script");
  EXPECT_THAT(Resolve({Write("s7", "#!/bin/bash\n")}),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("chmod +x")));
}

TEST_F(EntryPointTest, NoPythonExecutesWhateverItIs) {
  EXPECT_EQ(Resolve({Write("s.py", "#!/usr/bin/env python3\n", true)}, false, true)->kind,
            "executable");
  EXPECT_THAT(Resolve({folder_.string()}, false, true),
              StatusIs(StatusCode::kPermissionDenied, HasSubstr("not a file")));
}

TEST_F(EntryPointTest, DocumentedNameStartsTheProgramBesideIt) {
  const std::string program = Write("install/lr-train", kElfHead, true);
  const std::string script =
      Write("install/lerobot-train", "#!/bin/sh\n# lr-native-program: lr-train\nexec x\n", true);
  fs::create_symlink(script, folder_ / "bin/lerobot-train");
  for (const std::string& name : {script, std::string("lerobot-train")}) {
    const auto plan = Resolve({name, "--steps=1"});
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->native);
    EXPECT_EQ(plan->given, name);
    EXPECT_EQ(plan->executable, fs::canonical(program).string());
    EXPECT_THAT(plan->argv, ElementsAre(plan->executable, "--steps=1"));
  }
  fs::remove(program);
  EXPECT_THAT(Resolve({script}),
              StatusIs(StatusCode::kNotFound, HasSubstr("installation complete?")));
}

TEST_F(EntryPointTest, PlainNamesAreLookedUpInPath) {
  const std::string program = Write("bin/tool", kElfHead, true);
  EXPECT_EQ(Resolve({"tool"})->executable, program);
  EXPECT_THAT(Resolve({"tool"})->argv, ElementsAre("tool"));
}

TEST_F(EntryPointTest, MissingProgramSaysWhereItWasLookedFor) {
  EXPECT_THAT(Resolve({"no-such-tool"}),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("'no-such-tool'"), HasSubstr("nor in PATH"))));
  EXPECT_THAT(Resolve({"no_such.py"}),
              StatusIs(StatusCode::kNotFound, HasSubstr("working directory")));
}

}  // namespace
}  // namespace lr::launcher
