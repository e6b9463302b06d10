// The pure decisions: names of adapters, the merged file's plan, what to do with a folder, the new
// manifest, the command line.
#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tools/lr_convert_dcp/adapter_names.h"
#include "tools/lr_convert_dcp/checkpoint_place.h"
#include "tools/lr_convert_dcp/command_line.h"
#include "tools/lr_convert_dcp/manifest_change.h"
#include "tools/lr_convert_dcp/merge_plan.h"

namespace lr {
namespace {

using ::lr::testing::IsOk;
using ::lr::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Names = std::map<std::string, std::string>;

TEST(AdapterNamesTest, AdapterOnlyShardsKeepTheirNames) {
  const std::vector<std::string> names = {
      "b.q.lora_A.weight", "b.e.lora_embedding_A", "b.head.bias"};
  EXPECT_TRUE(HasAdapter(names));
  EXPECT_FALSE(HasAdapter({"b.q.weight", "b.flora_A.weight"}));
  const AdapterNames chosen = ChooseAdapterNames(names, AdapterBias::kNone).value();
  EXPECT_EQ(chosen.kept, (Names{{names[0], names[0]}, {names[1], names[1]}, {names[2], names[2]}}));
  EXPECT_THAT(chosen.left_out, IsEmpty());
}

TEST(AdapterNamesTest, ShardsOfEverythingLoseBaseAndAdapterName) {
  const std::vector<std::string> names = {"b.q.lora_A.default.weight",
                                          "b.q.lora_B.default.bias",
                                          "b.q.base_layer.weight",
                                          "b.q.base_layer.bias",
                                          "b.e.lora_embedding_B.default",
                                          "b.q.lora_magnitude_vector.default.weight",
                                          "b.head.modules_to_save.default.weight",
                                          "b.head.original_module.bias",
                                          "b.norm.bias"};
  Names expected = {{names[0], "b.q.lora_A.weight"},
                    {names[1], "b.q.lora_B.bias"},
                    {names[4], "b.e.lora_embedding_B"},
                    {names[5], "b.q.lora_magnitude_vector"},
                    {names[6], "b.head.weight"}};
  const AdapterNames chosen = ChooseAdapterNames(names, AdapterBias::kNone).value();
  EXPECT_EQ(chosen.kept, expected);
  EXPECT_THAT(chosen.left_out, ElementsAre(names[2], names[3], names[7], names[8]));
  expected[names[3]] = names[3];
  EXPECT_EQ(ChooseAdapterNames(names, AdapterBias::kLoraOnly)->kept, expected);
  expected[names[8]] = names[8];
  EXPECT_EQ(ChooseAdapterNames(names, AdapterBias::kAll)->kept, expected);
}

TEST(AdapterNamesTest, SeveralAdaptersAreRefused) {
  EXPECT_THAT(
      ChooseAdapterNames({"q.lora_A.one.weight", "q.lora_A.two.weight"}, AdapterBias::kNone),
      StatusIs(StatusCode::kUnimplemented, HasSubstr("one, two")));
}

worker::DcpTensor Tensor(const char* dtype, std::vector<int64_t> size) {
  return {worker::FindDcpDtype(dtype), std::move(size), {}};
}

TEST(MergePlanTest, OrderIsTheReferenceWritersAndTheTopIsUnwrapped) {
  worker::DcpMetadata metadata;
  metadata.tensors = {{"model.b", Tensor("torch.float32", {2})},
                      {"model.a.x", Tensor("torch.float32", {1, 3})},
                      {"model.z", Tensor("torch.int64", {})}};
  metadata.paths = {
      {"model.b", {"model", "b"}}, {"model.a.x", {"model", "a.x"}}, {"model.z", {"model", "z"}}};
  metadata.values["model.extra"] = {"__0_0.distcp", 0, 10};
  const auto plan = PlanMerge(metadata);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->keys,
              ElementsAre(Pair("a.x", "model.a.x"), Pair("b", "model.b"), Pair("z", "model.z")));
  ASSERT_EQ(plan->header.entries.size(), 3U);
  EXPECT_EQ(plan->header.entries[0].name, "z");
  EXPECT_EQ(plan->header.entries[2].begin, 20U);
  EXPECT_EQ(plan->largest_tensor(), 12U);
  EXPECT_EQ(plan->file_bytes(), plan->encoded.size() + 28);
  EXPECT_THAT(plan->values, ElementsAre("model.extra"));
  metadata.paths.clear();
  EXPECT_EQ(PlanMerge(metadata)->keys, plan->keys);
}

TEST(MergePlanTest, SeveralTopLevelKeysStay) {
  worker::DcpMetadata metadata;
  metadata.tensors = {{"a.w", Tensor("torch.bool", {2})}, {"b.w", Tensor("torch.bool", {2})}};
  metadata.paths = {{"a.w", {"a", "w"}}, {"b.w", {"b", "w"}}};
  EXPECT_THAT(PlanMerge(metadata)->keys, ElementsAre(Pair("a.w", "a.w"), Pair("b.w", "b.w")));
}

TEST(MergePlanTest, WhatCannotBeConvertedIsNamed) {
  worker::DcpMetadata metadata;
  EXPECT_THAT(PlanMerge(metadata), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no tensors")));
  metadata.tensors = {{"model.c", Tensor("torch.complex128", {2})}};
  EXPECT_THAT(PlanMerge(metadata),
              StatusIs(StatusCode::kUnimplemented,
                       AllOf(HasSubstr("model.c"), HasSubstr("torch.complex128"))));
  metadata.tensors = {{"x", Tensor("torch.bool", {2})}, {"y", Tensor("torch.bool", {2})}};
  metadata.paths = {{"x", {"m", "w"}}, {"y", {"m", "w"}}};
  EXPECT_THAT(PlanMerge(metadata), StatusIs(StatusCode::kInvalidArgument, HasSubstr("both mean")));
}

TEST(DecideWorkTest, EveryCase) {
  const auto decide = [](bool has_shards, const char* weights, const char* format, bool publishes) {
    return DecideWork({has_shards, weights, format}, "/x/pytorch_model_fsdp_0", publishes);
  };
  for (const bool publishes : {false, true}) {
    EXPECT_EQ(decide(true, "", "dcp", publishes).work, Work::kConvert);
    EXPECT_EQ(decide(true, "model.safetensors", "", publishes).work, Work::kConvert);
    EXPECT_EQ(decide(false, "", "dcp", publishes).work, Work::kRefuse);
    EXPECT_EQ(decide(false, "model.safetensors", "dcp", publishes).work, Work::kNothing);
    EXPECT_EQ(decide(false, "model.safetensors", "safetensors_dcp", publishes).work,
              Work::kNothing);
  }
  EXPECT_EQ(decide(false, "model.safetensors", "safetensors", true).work, Work::kNothing);
  EXPECT_EQ(decide(false, "model.safetensors", "", true).work, Work::kNothing);
  for (const char* format : {"safetensors", ""}) {
    const WorkDecision refused = decide(false, "model.safetensors", format, false);
    EXPECT_EQ(refused.work, Work::kRefuse);
    EXPECT_THAT(refused.reason,
                AllOf(HasSubstr("/x/pytorch_model_fsdp_0"), HasSubstr("dcp or safetensors_dcp")));
  }
}

TEST(ManifestChangeTest, TheMergedFileComesAndTheShardsGo) {
  CheckpointManifest manifest;
  manifest.files = {{"pretrained_model/pytorch_model_fsdp_0/.metadata", 1, "a"},
                    {"pretrained_model/model.safetensors", 2, "old"},
                    {"training_state/optimizer_0/.metadata", 3, "c"}};
  const CheckpointFile merged{kModelPath, 9, "new"};
  const auto paths = [](const CheckpointManifest& changed) {
    std::vector<std::string> found;
    for (const CheckpointFile& file : changed.files) {
      found.push_back(file.path + "=" + file.checksum);
    }
    return found;
  };
  EXPECT_THAT(paths(WithMergedFile(manifest, merged, ShardsAre::kKept)),
              ElementsAre("pretrained_model/model.safetensors=new",
                          "pretrained_model/pytorch_model_fsdp_0/.metadata=a",
                          "training_state/optimizer_0/.metadata=c"));
  EXPECT_THAT(paths(WithMergedFile(manifest, merged, ShardsAre::kDeleted)),
              ElementsAre("pretrained_model/model.safetensors=new",
                          "training_state/optimizer_0/.metadata=c"));
}

TEST(CommandLineTest, LeRobotsFormsAndSwitches) {
  const auto line = ParseCommandLine({"--checkpoint_dir",
                                      "/x",
                                      "--delete_dcp=True",
                                      "--push_to_hub=me/act",
                                      "--private",
                                      "false",
                                      "--json"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->checkpoint_dir, "/x");
  EXPECT_TRUE(line->delete_dcp);
  EXPECT_EQ(line->push_to_hub, "me/act");
  EXPECT_EQ(line->is_private, false);
  EXPECT_TRUE(line->json);
  EXPECT_THAT(ParseCommandLine({"--help"})->help,
              AllOf(HasSubstr("--checkpoint_dir"), HasSubstr("--config_path")));
}

TEST(CommandLineTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [](std::vector<std::string> args, const char* reason) {
    EXPECT_THAT(ParseCommandLine(std::move(args)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(reason)));
  };
  refused({}, "--checkpoint_dir is required");
  refused({"--checkpoint_dir=x", "--delete_dpc=true"}, "did you mean --delete_dcp");
  refused({"--checkpoint_dir=x", "--delete_dcp=maybe"}, "--delete_dcp=maybe");
  refused({"--checkpoint_dir=x", "--list", "--verify"}, "choose one");
  refused({"--checkpoint_dir=x", "--verify", "--delete_dcp"}, "only reads");
  refused({"--checkpoint_dir=x", "--private=true"}, "without --push_to_hub");
  refused({"--checkpoint_dir=x", "--push_to_hub=--token"}, "no name of a repository");
}

}  // namespace
}  // namespace lr
