#include "program/readers/dump.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

// Scalars, versioned weights; a call with a local whose second op reduces over tensor ranks, a
// reduction over data ranks on its own stream, an update under a predicate.
ProgramSet Tiny() {
  ProgramSet set;
  set.groups = {.data = 2, .tensor = 2};
  set.scalars = 0;
  set.slots = {
      {.name = "scalars", .klass = SlotClass::kScalars, .bytes = kScalarBytes, .persistent = true},
      {.name = "w",
       .klass = SlotClass::kParameters,
       .bytes = 256,
       .persistent = true,
       .versioned = true}};
  Template forward{.name = "forward",
                   .formals = {{.name = "w", .bytes = 256}, {.name = "g", .bytes = 256}},
                   .locals = {{.name = "l", .bytes = 64}}};
  forward.ops = {
      {.kind = OpKind::kMatMul,
       .operands = {{.slot = 0, .bytes = 256}, {.slot = 2, .bytes = 64, .access = Access::kWrite}},
       .ints = {4, 2},
       .floats = {0.5}},
      {.kind = OpKind::kCollective,
       .operands = {{.slot = 2, .bytes = 64},
                    {.slot = 1,
                     .bytes = 256,
                     .access = Access::kWrite,
                     .partial = PartialOver(Group::kData)}},
       .communication = {.op = CollectiveOp::kAllReduce, .group = Group::kTensor, .bytes = 64},
       .stream = Stream::kTensor}};
  Template update{.name = "update",
                  .formals = {{.name = "g", .bytes = 256},
                              {.name = "old", .bytes = 256},
                              {.name = "new", .bytes = 256}}};
  update.ops = {{.kind = OpKind::kAdamW,
                 .operands = {{.slot = 0, .bytes = 256},
                              {.slot = 1, .bytes = 256},
                              {.slot = 2, .bytes = 256, .access = Access::kWrite}}}};
  set.templates = {forward, update};
  const Operand w{.slot = 1, .bytes = 256};
  Operand next = w, g{.slot = 2, .bytes = 256, .access = Access::kWrite}, whole = g;
  next.version = 1;
  next.access = Access::kWrite;
  Instruction call{.label = "forward 0", .operands = {w, g}, .template_index = 0};
  Operand own{.slot = 2,
              .bytes = 128,
              .partial = PartialOver(Group::kData),
              .shard_group = Group::kData,
              .shard_stride = 128};
  Instruction reduce{.mechanism = Mechanism::kCollective,
                     .purpose = Purpose::kReduce,
                     .label = "sum",
                     .stream = Stream::kGradients,
                     .operands = {own, whole}};
  reduce.communication = {.op = CollectiveOp::kAllGather, .group = Group::kData, .bytes = 128};
  g.access = Access::kRead;
  Instruction adam{.purpose = Purpose::kUpdate,
                   .label = "update",
                   .operands = {g, w, next},
                   .template_index = 1};
  adam.predicate = Predicate{};
  Program train{.name = "train", .slots = {{.name = "g", .bytes = 256}}};
  train.instructions = {call, reduce, adam};
  set.programs = {train};
  const absl::Status status = LayOut(set);
  EXPECT_TRUE(status.ok()) << status;
  return set;
}

TEST(DumpTest, TinyProgramIsThisText) {
  const ProgramSet set = Tiny();
  EXPECT_EQ(Dump(set, set.programs[0], true),
            R"(program train arenas 0 8192 0
state host scalars 128 at 0 'scalars'
state host parameters 256 at 128 'w'
slot host activations 256 at 4096 'g'
slot host workspace 64 at 4352 'locals of forward 0'
0 compute call forward 'forward 0' calls forward w[0,256) =g[0,256)
1 gradients collective reduce 'sum' all-gather data f32 128 g[0,128)+128*data~data =g[0,256) after 0
2 compute call update 'update' calls update g[0,256) w[0,256) =w[0,256)' if apply after 1
template forward frame 64 locals at 0
  caller matmul w[0,256) =l[0,64) {4,2;0.5}
  tensor collective l[0,64) =g[0,256)~data {;} all-reduce tensor f32 64 after 0
template update frame 0 locals at 
  caller adamw g[0,256) old[0,256) =new[0,256) {;}
)");
}

struct Change {
  const char* what;
  std::function<void(ProgramSet&)> apply;
};

Instruction& At(ProgramSet& set, int index) { return set.programs[0].instructions[index]; }

TEST(DumpTest, ProgramDigestSeesEveryFieldThatMatters) {
  const std::vector<Change> changes = {
      {"operand offset", [](ProgramSet& s) { At(s, 1).operands[0].offset = 64; }},
      {"operand bytes", [](ProgramSet& s) { At(s, 1).operands[0].bytes = 64; }},
      {"operand slot", [](ProgramSet& s) { At(s, 1).operands[0].slot = 1; }},
      {"operand access", [](ProgramSet& s) { At(s, 1).operands[0].access = Access::kAccumulate; }},
      {"operand version", [](ProgramSet& s) { At(s, 2).operands[2].version = 0; }},
      {"operand partial", [](ProgramSet& s) { At(s, 1).operands[0].partial = 0; }},
      {"shard stride", [](ProgramSet& s) { At(s, 1).operands[0].shard_stride = 64; }},
      {"shard group", [](ProgramSet& s) { At(s, 1).operands[0].shard_group = Group::kTensor; }},
      {"dependency", [](ProgramSet& s) { At(s, 1).dependencies[0].instruction = 2; }},
      {"no dependency", [](ProgramSet& s) { At(s, 1).dependencies.clear(); }},
      {"steps back", [](ProgramSet& s) { At(s, 1).dependencies[0].steps_back = 1; }},
      {"stream", [](ProgramSet& s) { At(s, 1).stream = Stream::kTensor; }},
      {"mechanism", [](ProgramSet& s) { At(s, 1).mechanism = Mechanism::kTransfer; }},
      {"label", [](ProgramSet& s) { At(s, 1).label = "total"; }},
      {"template", [](ProgramSet& s) { At(s, 0).template_index = 1; }},
      {"predicate", [](ProgramSet& s) { At(s, 2).predicate->negated = true; }},
      {"predicate scalar", [](ProgramSet& s) { At(s, 2).predicate->scalar = Scalar::kClipped; }},
      {"no predicate", [](ProgramSet& s) { At(s, 2).predicate.reset(); }},
      {"collective op",
       [](ProgramSet& s) { At(s, 1).communication.op = CollectiveOp::kAllReduce; }},
      {"collective group", [](ProgramSet& s) { At(s, 1).communication.group = Group::kTensor; }},
      {"collective bytes", [](ProgramSet& s) { At(s, 1).communication.bytes = 64; }},
      {"collective type", [](ProgramSet& s) { At(s, 1).communication.dtype = DType::kBF16; }},
      {"place", [](ProgramSet& s) { s.programs[0].placements[0].offset = 8192; }},
      {"copies", [](ProgramSet& s) { s.placements[1].copies = 2; }},
      {"arena", [](ProgramSet& s) { s.arena_bytes[1] += kPageBytes; }},
      {"slot bytes", [](ProgramSet& s) { s.slots[1].bytes = 512; }},
      {"tier", [](ProgramSet& s) { s.slots[1].tier = Tier::kDevice; }},
      {"order", [](ProgramSet& s) { std::swap(At(s, 0), At(s, 1)); }},
      {"op kind", [](ProgramSet& s) { s.templates[0].ops[0].kind = OpKind::kAdd; }},
      {"op ints", [](ProgramSet& s) { s.templates[0].ops[0].ints[1] = 3; }},
      {"op floats", [](ProgramSet& s) { s.templates[0].ops[0].floats[0] = 0.5000000001; }},
      {"op stream", [](ProgramSet& s) { s.templates[0].ops[1].stream = Stream::kSend; }},
      {"op operand", [](ProgramSet& s) { s.templates[0].ops[1].operands[0].offset = 8; }},
      {"op dependency", [](ProgramSet& s) { s.templates[0].ops[1].dependencies.clear(); }},
      {"op collective", [](ProgramSet& s) { s.templates[0].ops[1].communication.bytes = 8; }},
      {"local's place", [](ProgramSet& s) { s.templates[0].local_offsets[0] = 64; }},
  };
  const ProgramSet set = Tiny();
  const std::string digest = ProgramDigest(set, "build");
  EXPECT_EQ(ProgramDigest(Tiny(), "build"), digest);
  EXPECT_NE(ProgramDigest(set, "another build"), digest);
  for (const Change& change : changes) {
    ProgramSet changed = set;
    change.apply(changed);
    EXPECT_NE(ProgramDigest(changed, "build"), digest) << change.what;
  }
}

TEST(DumpTest, GroupDigestsSeeTheirCollectivesOnly) {
  const ProgramSet set = Tiny();
  const std::map<Group, std::string> digests = GroupDigests(set);
  ASSERT_EQ(digests.size(), 2u);
  const std::vector<Change> of_data = {
      {"label", [](ProgramSet& s) { At(s, 1).label = "total"; }},
      {"bytes", [](ProgramSet& s) { At(s, 1).communication.bytes = 64; }},
      {"type", [](ProgramSet& s) { At(s, 1).communication.dtype = DType::kBF16; }},
      {"root", [](ProgramSet& s) { At(s, 1).communication.root = 1; }},
      {"op", [](ProgramSet& s) { At(s, 1).communication.op = CollectiveOp::kReduceScatter; }},
      {"stream", [](ProgramSet& s) { At(s, 1).stream = Stream::kParameters; }},
      {"one more", [](ProgramSet& s) { s.programs[0].instructions.push_back(At(s, 1)); }},
  };
  for (const Change& change : of_data) {
    ProgramSet changed = set;
    change.apply(changed);
    const std::map<Group, std::string> now = GroupDigests(changed);
    EXPECT_NE(now.at(Group::kData), digests.at(Group::kData)) << change.what;
    EXPECT_EQ(now.at(Group::kTensor), digests.at(Group::kTensor)) << change.what;
  }
  ProgramSet changed = set;
  changed.templates[0].ops[1].communication.bytes = 32;
  EXPECT_NE(GroupDigests(changed).at(Group::kTensor), digests.at(Group::kTensor));
  EXPECT_EQ(GroupDigests(changed).at(Group::kData), digests.at(Group::kData));
  changed = set;
  At(changed, 1).operands[0].offset = 64;  // what is a rank's own affair
  EXPECT_EQ(GroupDigests(changed), digests);
}

TEST(DumpTest, TwoCollectivesInAnotherOrderGiveAnotherDigest) {
  ProgramSet one = Tiny();
  one.programs[0].instructions.insert(one.programs[0].instructions.begin() + 1, At(one, 1));
  At(one, 1).communication.bytes = 64;
  ProgramSet other = one;
  std::swap(At(other, 1), At(other, 2));
  EXPECT_NE(GroupDigests(one).at(Group::kData), GroupDigests(other).at(Group::kData));
}

}  // namespace
}  // namespace strata::program
