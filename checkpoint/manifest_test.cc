#include "checkpoint/manifest.h"

#include <functional>

#include "checkpoint/testing.h"
#include "common/digest.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const LogicalTensor kWeight = {"w", "param", {4, 3}, DType::kF32};

FileFragment Fragment(const std::string& file, std::vector<FileEntry> entries) {
  return {file, 100, "d-" + file, "h-" + file, std::move(entries)};
}
FileEntry Part(int64_t begin, int64_t end, const LogicalTensor& tensor = kWeight) {
  return {"w[" + std::to_string(begin) + "]", tensor, begin, end, "e"};
}
std::string Refusal(const std::vector<FileFragment>& fragments) {
  const auto manifest = JoinFragments({}, fragments);
  return manifest.ok() ? "" : std::string(manifest.status().message());
}

std::string SmallText() {
  CommitRequest request = RequestOf(3, 20,
                                    {Fragment("rank-1.safetensors", {Part(5, 12)}),
                                     Fragment("rank-0.safetensors", {Part(0, 5)})});
  return *JoinFragments(request.info, request.fragments)->ToJson();
}

TEST(ManifestTest, Join_PartsOfTwoRanks_MapsElementsToFiles) {
  const auto manifest = Manifest::FromJson(SmallText());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->info.step, 20);
  EXPECT_EQ(manifest->info.applied_updates, 19);
  EXPECT_EQ(manifest->info.next_sample_index, 640);
  EXPECT_EQ(manifest->info.epoch, 3);
  EXPECT_EQ(manifest->info.virtual_shards, 4);
  EXPECT_EQ(manifest->info.seed, ~uint64_t{0});
  EXPECT_EQ(manifest->info.plan_digest, "plan");
  EXPECT_EQ(manifest->info.build, "build");
  EXPECT_EQ(manifest->info.isa, "avx2");
  EXPECT_EQ(manifest->info.device_kind, "cpu");
  EXPECT_EQ(manifest->info.job_spec, "name: \"small\"\n# ü\n");
  ASSERT_EQ(manifest->info.data_files.size(), 1u);
  EXPECT_EQ(manifest->info.data_files[0].path, "/data/ü.bin");
  EXPECT_EQ(manifest->info.data_files[0].size_bytes, 4096);
  EXPECT_EQ(manifest->info.data_files[0].digest, "whole");
  EXPECT_EQ(manifest->info.data_files[0].parts, "abcd");
  ASSERT_EQ(manifest->files.size(), 2u);
  EXPECT_EQ(manifest->files[0].digest, "d-rank-1.safetensors");
  EXPECT_EQ(manifest->files[0].header_digest, "h-rank-1.safetensors");
  EXPECT_EQ(manifest->files[0].entries[0].digest, "e");
  const ManifestTensor* const tensor = manifest->Find("w", "param");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->tensor, kWeight);
  ASSERT_EQ(tensor->extents.size(), 2u);
  EXPECT_EQ(tensor->extents[0].begin, 0);
  EXPECT_EQ(tensor->extents[0].file, 1);
  EXPECT_EQ(tensor->extents[1].begin, 5);
  EXPECT_EQ(tensor->extents[1].entry, "w[5]");
  EXPECT_EQ(manifest->Find("w", "adam.m"), nullptr);
}

TEST(ManifestTest, FromJson_AnyBitChanged_IsDataLoss) {
  const std::string text = SmallText();
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      ASSERT_TRUE(absl::IsDataLoss(Manifest::FromJson(changed).status())) << at << " " << bit;
    }
  }
}

TEST(ManifestTest, FromJson_CutAnywhereOrExtended_IsDataLoss) {
  const std::string text = SmallText();
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_TRUE(absl::IsDataLoss(Manifest::FromJson(text.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(Manifest::FromJson(text + " ").status()));
}

// The text with its body changed and its digest made to fit.
std::string Forged(const std::function<void(std::string&)>& change) {
  const std::string text = SmallText(), tail = ",\n \"manifest_digest\": \"";
  std::string body = text.substr(0, text.rfind(tail));
  change(body);
  return body + tail + common::DigestOf(body) + "\"\n}\n";
}

TEST(ManifestTest, FromJson_ForgedContent_IsRefused) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    return Manifest::FromJson(Forged([&](std::string& body) {
             const size_t at = body.find(from);
             ASSERT_NE(at, std::string::npos) << from;
             body.replace(at, from.size(), to);
           }))
        .status();
  };
  EXPECT_TRUE(replaced("plan\"", "plan\"").ok());
  EXPECT_TRUE(absl::IsUnimplemented(replaced("\"version\": 3", "\"version\": 4")));
  EXPECT_TRUE(replaced("\"version\": 3", "\"version\": 2").ok());
  EXPECT_TRUE(replaced("\"version\": 3", "\"version\": 1").ok());
  EXPECT_TRUE(absl::IsUnimplemented(replaced("strata checkpoint", "other")));
  const std::pair<std::string, std::string> cases[] = {
      {"\"rank-1.safetensors\"", "\"../rank-1.safetensors\""},
      {"\"rank-1.safetensors\"", "\"/etc/passwd\""},
      {"\"rank-1.safetensors\"", "\"..\""},
      {"\"file\": 1", "\"file\": 2"},
      {"\"file\": 1", "\"file\": -1"},
      {"\"file\": 1", "\"file\": 4294967296"},
      {"\"begin\": 5", "\"begin\": 6"},
      {"\"begin\": 5", "\"begin\": 4"},
      {"\"end\": 12", "\"end\": 13"},
      {"\"end\": 12", "\"end\": 9223372036854775807"},
      {"\"end\": 12", "\"end\": 1.5"},
      {"\"F32\"", "\"F99\""},
      {"\"step\": 20", "\"step\": \"20\""},
      {"\"step\": 20", "\"stop\": 20"},
      {"\"data_files\": [", "\"data_files\": {"},
      {"\"size_bytes\": 4096", "\"size_bytes\": -1"},
      {"\"parts\"", "\"party\""},
      {"\"tensors\": [", "\"tensors\": {"},
      {"\"info\": {", "\"info\": [{"},
      {"    4,\n", "    9223372036854775807,\n"},
  };
  for (const auto& [from, to] : cases) {
    EXPECT_TRUE(absl::IsDataLoss(replaced(from, to))) << to << ": " << replaced(from, to);
  }
}

TEST(ManifestTest, FromJson_OfBeforeThereWereDataFiles_HasNone) {
  const auto manifest = Manifest::FromJson(Forged([](std::string& body) {
    const size_t at = body.find("\"data_files\"");
    ASSERT_NE(at, std::string::npos);
    body.replace(at, 12, "\"other_files\"");
  }));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_TRUE(manifest->info.data_files.empty());
}

TEST(ManifestTest, FromJson_MutationsWithAFittingDigest_NeverCrash) {
  const std::string parts[] = {"9223372036854775807", "-1", "{", "[", "\"", "null", "[]", "0"};
  int accepted = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    const auto random = common::Philox(1, round, 0);
    accepted += Manifest::FromJson(Forged([&](std::string& body) {
                  const size_t at = random[0] % body.size();
                  const std::string& part = parts[random[1] % std::size(parts)];
                  if (random[2] % 2 == 0)
                    body.erase(at, 1 + random[1] % 5);
                  else
                    body.replace(at, std::min(part.size(), body.size() - at), part);
                })).ok();
  }
  EXPECT_LT(accepted, 1000);
}

TEST(ManifestTest, Join_ElementsMissingTwiceOrOutside_NamesTensorAndFiles) {
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 12)})}), "");
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 4)}), Fragment("b", {Part(5, 12)})}),
            "tensor w (param): element 4 of 12 is in no file");
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 11)})}),
            "tensor w (param): element 11 of 12 is in no file");
  EXPECT_EQ(Refusal({Fragment("a", {Part(1, 12)})}),
            "tensor w (param): element 0 of 12 is in no file");
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 6)}), Fragment("b", {Part(5, 12)})}),
            "tensor w (param): element 5 is in a and in b");
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 13)})}),
            "tensor w (param): a holds elements [0, 13) of 12");
  LogicalTensor other = kWeight;
  other.shape = {3, 4};
  EXPECT_THAT(Refusal({Fragment("a", {Part(0, 6)}), Fragment("b", {Part(6, 12, other)})}),
              AllOf(HasSubstr("tensor w (param)"), HasSubstr("differs")));
  EXPECT_EQ(Refusal({Fragment("a", {Part(0, 6)}), Fragment("a", {Part(6, 12)})}),
            "two ranks wrote a");
  EXPECT_THAT(Refusal({Fragment("x/y", {Part(0, 12)})}), HasSubstr("no name of a file"));
}

FileEntry BoxPart(const Box& box, int64_t begin, int64_t end,
                  const LogicalTensor& tensor = kWeight) {
  return {"w" + ToText(box), tensor, begin, end, "e", box};
}
FileEntry BoxPart(const Box& box) { return BoxPart(box, 0, box.elements()); }

TEST(ManifestTest, Join_BoxesAndRangesOfBoxes_AreKeptThroughTheText) {
  const Box left = {{0, 0}, {4, 2}}, right = {{0, 2}, {4, 1}};
  const CommitRequest request =
      RequestOf(3, 20,
                {Fragment("b", {BoxPart(right)}), Fragment("a", {BoxPart(left, 3, 8)}),
                 Fragment("c", {BoxPart(left, 0, 3)})});
  const auto joined = JoinFragments(request.info, request.fragments);
  ASSERT_TRUE(joined.ok()) << joined.status();
  const auto manifest = Manifest::FromJson(*joined->ToJson());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const std::vector<Extent>& extents = manifest->Find("w", "param")->extents;
  ASSERT_EQ(extents.size(), 3u);
  EXPECT_EQ(extents[0].box, left);
  EXPECT_EQ(extents[0].begin, 0);
  EXPECT_EQ(extents[1].begin, 3);
  EXPECT_EQ(extents[1].file, 1);
  EXPECT_EQ(extents[2].box, right);
}

TEST(ManifestTest, Join_ABoxOfTheWholeTensor_IsTheTensor) {
  const auto manifest = JoinFragments({}, {Fragment("a", {BoxPart(WholeBox({4, 3}))})});
  ASSERT_TRUE(manifest.ok());
  EXPECT_FALSE(manifest->tensors[0].extents[0].box.has_value());
}

TEST(ManifestTest, Join_BoxesThatOverlapLeaveGapsOrLieOutside_NamesTensorAndFiles) {
  const Box left = {{0, 0}, {4, 2}}, right = {{0, 2}, {4, 1}}, top = {{0, 0}, {1, 3}};
  const auto two = [](const FileEntry& a, const FileEntry& b) {
    return Refusal({Fragment("a", {a}), Fragment("b", {b})});
  };
  EXPECT_EQ(two(BoxPart(left), BoxPart(right)), "");
  EXPECT_EQ(two(BoxPart(left), BoxPart(top)),
            "tensor w (param): [0:1, 0:2] is in b, box [0:1, 0:3], and in a, box [0:4, 0:2]");
  EXPECT_EQ(two(Part(0, 12), BoxPart(right)),
            "tensor w (param): [0:4, 2:3] is in a, box [0:4, 0:3], and in b, box [0:4, 2:3]");
  EXPECT_EQ(Refusal({Fragment("a", {BoxPart(left)})}),
            "tensor w (param): 4 of 12 elements are in no file");
  EXPECT_EQ(two(BoxPart(left, 0, 5), BoxPart(right)),
            "tensor w (param): element 5 of 8 of box [0:4, 0:2] is in no file");
  EXPECT_EQ(two(BoxPart(left, 0, 9), BoxPart(right)),
            "tensor w (param): a holds elements [0, 9) of 8 of box [0:4, 0:2]");
  EXPECT_EQ(Refusal({Fragment("a", {BoxPart(left, 0, 5)}), Fragment("b", {BoxPart(left, 4, 8)}),
                     Fragment("c", {BoxPart(right)})}),
            "tensor w (param): element 4 of box [0:4, 0:2] is in a and in b");
  for (const Box& outside : {Box{{0, 2}, {4, 2}}, Box{{1, 0}, {4, 3}}, Box{{0}, {12}},
                             Box{{-1, 0}, {5, 3}}, Box{{0, 0}, {INT64_MAX, INT64_MAX}}}) {
    EXPECT_EQ(Refusal({Fragment("a", {BoxPart(outside, 0, 12)})}),
              "tensor w (param): a holds a box that is not inside [0:4, 0:3]");
  }
}

// 10,000 boxes: seconds if all were compared with all.
TEST(ManifestTest, Join_ManyBoxes_AreQuick) {
  const LogicalTensor large = {"w", "param", {1000, 1000}, DType::kF32};
  std::vector<FileEntry> parts;
  for (int64_t row = 0; row < 1000; ++row) {
    for (int64_t column = 0; column < 10; ++column) {
      parts.push_back(BoxPart({{row, column * 100}, {1, 100}}, 0, 100, large));
    }
  }
  EXPECT_EQ(Refusal({Fragment("a", parts)}), "");
  parts.pop_back();
  EXPECT_EQ(Refusal({Fragment("a", parts)}),
            "tensor w (param): 100 of 1000000 elements are in no file");
}

TEST(ManifestTest, Fragment_OfBoxes_IsKept) {
  const Box left = {{0, 0}, {4, 2}};
  const FileFragment fragment = Fragment("a", {BoxPart(left, 3, 8)});
  const auto back = FileFragment::FromJson(fragment.ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->entries[0].box, left);
  EXPECT_EQ(back->ToJson(), fragment.ToJson());
}

TEST(ManifestTest, Fragment_RoundTripAndGarbage_IsKeptOrRefused) {
  const FileFragment fragment = Fragment("rank-0.safetensors", {Part(5, 12)});
  const auto back = FileFragment::FromJson(fragment.ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ToJson(), fragment.ToJson());
  EXPECT_EQ(back->entries[0].tensor, kWeight);
  for (const char* text : {"", "{}", "[]", "nonsense", "{\"file\":\"../x\"}", "{\"file\":1}"}) {
    EXPECT_FALSE(FileFragment::FromJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace strata::checkpoint
