// The interpreter alone, on PTX written by hand: needs no CUDA toolkit.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "device/standin/block.h"
#include "device/standin/machine.h"
#include "device/standin/number_formats.h"
#include "device/standin/program.h"
#include "device/standin/ptx_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::standin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kHead[] = R"(
.version 9.0
.target sm_90a
.address_size 64
)";

// An entry `k` that is given the address of an array.
std::string Kernel(const std::string& body, const std::string& before = "") {
  return kHead + before + R"(
.visible .entry k(
  .param .u64 k_param_0
)
.maxntid 256, 1, 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<99>;
  .reg .f32 %f<9>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [k_param_0];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;  // of this thread
)" + body +
         "\n  ret;\n}\n.file 1 \"/src//x.cu\"\n";
}

class InterpreterTest : public testing::Test {
 protected:
  // Runs a kernel with one block; the array's first elements afterwards.
  std::vector<int> Run(const std::string& text, uint32_t threads, int count) {
    const absl::StatusOr<PtxModule> module = ParsePtx(text, machine_.findings);
    EXPECT_TRUE(module.ok()) << module.status();
    if (!module.ok()) return {};
    const absl::StatusOr<Program> program = Decode(*module, module->entries.at("k"), {});
    EXPECT_TRUE(program.ok()) << program.status();
    Region* const array = machine_.memory.Allocate(4096);
    Launch launch{&*program, {1, 1, 1}, {threads, 1, 1}, 0, std::vector<std::byte>(8)};
    std::memcpy(launch.parameters.data(), &array->begin, 8);
    RunGrid(launch, machine_, machine_.operations.Add("k", 0, {1}));
    std::vector<int> values(count);
    std::memcpy(values.data(), array->data, count * sizeof(int));
    return values;
  }
  static absl::Status ParseStatus(const std::string& text) {
    Findings findings;
    return ParsePtx(text, findings).status();
  }

  Machine machine_{Options{.thread_order = ThreadOrder::kAscending}};
};

TEST_F(InterpreterTest, ThreadsWriteTheirNumbers) {
  EXPECT_THAT(Run(Kernel("st.global.u32 [%rd4], %r1;"), 4, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(machine_.findings.Take(), IsEmpty());
}

TEST_F(InterpreterTest, LanesThatWentDifferentWaysMeetAgain) {
  const std::string body = R"(
  and.b32 %r2, %r1, 1;
  setp.ne.s32 %p1, %r2, 0;
  @%p1 bra ODD;
  mov.u32 %r3, 10;
  bra.uni DONE;
ODD:
  mov.u32 %r3, 20;
DONE:
  activemask.b32 %r4;
  add.s32 %r5, %r3, %r4;
  @!%p1 add.s32 %r5, %r5, 1;
  st.global.u32 [%rd4], %r5;)";
  EXPECT_THAT(Run(Kernel(body), 4, 4), ElementsAre(26, 35, 26, 35));
}

TEST_F(InterpreterTest, NamesInBracesHideThoseOutside) {
  const std::string body = R"(
  mov.u32 %r2, 5;
  { .reg .b32 %r2; .reg .b32 t; mov.u32 %r2, 7; mov.u32 t, 1;
  L: add.s32 t, t, %r2; setp.lt.s32 %p1, t, 20; @%p1 bra L; st.global.u32 [%rd4+4], t; }
  { .reg .b32 t; mov.u32 t, 3; L: add.s32 t, t, 1; setp.lt.s32 %p1, t, 6; @%p1 bra L;
  st.global.u32 [%rd4+8], t; }
  st.global.u32 [%rd4], %r2;)";
  EXPECT_THAT(Run(Kernel(body), 1, 3), ElementsAre(5, 22, 6));
}

TEST_F(InterpreterTest, VectorsAreTakenApartAndPutTogether) {
  const std::string body = R"(
  mov.u32 %r2, 0x12345678; // a comment; with a semicolon { and a brace
  /* and another: } */
  { .reg .b16 low, high; mov.b32 {low, high}, %r2; mov.b32 %r3, {high, low}; }
  st.global.v2.u32 [%rd2], {%r2, %r3};
  ld.global.v2.u32 {%r4, %r5}, [%rd2];
  st.global.u32 [%rd2+8], %r5;)";
  EXPECT_THAT(Run(Kernel(body), 1, 3), ElementsAre(0x12345678, 0x56781234, 0x56781234));
}

TEST_F(InterpreterTest, FindingsNameTheLineThatASystemHeaderWasCalledFrom) {
  const std::string body = R"(
  .loc 1 41 3
  ld.global.u32 %r2, [%rd4+16];
  .loc 2 7 1, function_name $L__info_string0, inlined_at 1 42 5
  ld.global.u32 %r3, [%rd4+32];)";
  Run(Kernel(body) + ".file 2 \"/opt/cuda/include/x.h\"\n", 1, 1);
  EXPECT_THAT(machine_.findings.Take(),
              ElementsAre(Field(&Finding::text,
                                AllOf(HasSubstr("uninitialised: "), HasSubstr("at x.cu:41"))),
                          Field(&Finding::text, HasSubstr("at x.cu:42"))));
}

TEST_F(InterpreterTest, SharedVariablesLieApart) {
  const std::string shared = "\n  .shared .align 4 .b8 _ZZ1kvE1a[16];\n  .shared .align 4 .u32 b;";
  const std::string body = shared + R"(
  mov.u32 %r2, _ZZ1kvE1a;
  st.shared.u32 [%r2+12], 7;
  st.shared.u32 [b], 8;
  ld.shared.u32 %r3, [_ZZ1kvE1a+12];
  st.global.u32 [%rd4], %r3;
  ld.shared.u32 %r3, [%r2+16];)";
  EXPECT_THAT(Run(Kernel(body), 1, 1), ElementsAre(7));
  EXPECT_THAT(machine_.findings.Take(),
              ElementsAre(Field(&Finding::text, HasSubstr("4 bytes at +16 of shared a"))));
}

TEST_F(InterpreterTest, LocalMemoryBelongsToAThread) {
  const std::string body = R"(
  .local .align 4 .b8 __local_depot0[8];
  .reg .b64 %SP;
  .reg .b64 %SPL;
  mov.u64 %SPL, __local_depot0;
  cvta.local.u64 %SP, %SPL;
  st.local.u32 [%SPL+4], %r1;
  ld.u32 %r2, [%SP+4];
  st.global.u32 [%rd4], %r2;)";
  EXPECT_THAT(Run(Kernel(body), 3, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(machine_.findings.Take(), IsEmpty());
}

TEST_F(InterpreterTest, WhatIsNotKnownStopsTheKernelWhenItIsReached) {
  const std::string body = R"(
  st.global.u32 [%rd4], 1;
  setp.eq.s32 %p1, %r1, 9;
  @%p1 frobnicate.u32 %r1;
  st.global.u32 [%rd4], 2;
  wgmma.fence.sync.aligned;
  st.global.u32 [%rd4], 3;)";
  EXPECT_THAT(Run(Kernel(body), 1, 1), ElementsAre(2));
  EXPECT_THAT(machine_.findings.Take(),
              ElementsAre(Field(&Finding::text, HasSubstr("`wgmma.fence.sync.aligned` is not"))));
}

TEST_F(InterpreterTest, DifferentBarriersOfABlockAreFound) {
  const std::string body = R"(
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra FIRST;
  bar.sync 0;
  bra.uni DONE;
FIRST:
  bar.sync 0;
DONE:
  st.global.u32 [%rd4], 1;)";
  Run(Kernel(body), 64, 1);
  EXPECT_THAT(machine_.findings.Take(),
              ElementsAre(Field(&Finding::kind, FindingKind::kDivergentBarrier)));
}

TEST_F(InterpreterTest, TextThatIsNoPtxIsAnError) {
  EXPECT_FALSE(ParseStatus(Kernel("bra NOWHERE;")).ok());
  EXPECT_FALSE(ParseStatus(Kernel("@%q1 st.global.u32 [%rd4], 1;")).ok());
  EXPECT_FALSE(ParseStatus(std::string(kHead) + ".entry k( ) { ret;").ok());
  EXPECT_TRUE(ParseStatus("").ok());
}

TEST_F(InterpreterTest, VariablesOfAModuleHaveSizesAndValues) {
  Findings findings;
  const auto module = ParsePtx(std::string(kHead) + R"(
.const .align 4 .b8 table[8] = {1, 2, 255};
.global .align 8 .u64 count = 7;
.extern .shared .align 16 .b8 dynamic[];
)",
                               findings);
  ASSERT_TRUE(module.ok());
  ASSERT_EQ(module->global.size(), 2u);
  EXPECT_EQ(module->global[0].bytes, 8u);
  EXPECT_THAT(module->global[0].values, ElementsAre(1, 2, 255));
  EXPECT_EQ(module->global[1].element_bytes, 8u);
  EXPECT_THAT(module->global[1].values, ElementsAre(7));
  ASSERT_EQ(module->shared.size(), 1u);
  EXPECT_TRUE(module->shared[0].is_external);
  EXPECT_EQ(module->shared[0].align, 16u);
}

TEST(NumberFormatsTest, EveryValueOfSixteenBitsSurvives) {
  for (const Format& format : {kBfloat16, kFloat16, kE5M2, kE4M3}) {
    const int bits = 1 + format.exponent_bits + format.mantissa_bits;
    for (uint32_t value = 0; value < 1u << bits; ++value) {
      const double number = Decode(format, value);
      if (std::isnan(number)) continue;
      ASSERT_EQ(Encode(format, number, Rounding::kNearest), value);
      ASSERT_EQ(Encode(format, number, Rounding::kZero), value);
    }
  }
}

TEST(NumberFormatsTest, ValuesBetweenTwoAreRoundedAsAsked) {
  constexpr double kAbove = 1 + 0x1p-8;  // half a last place of bfloat16 above 1
  EXPECT_EQ(Encode(kBfloat16, kAbove, Rounding::kNearest), 0x3f80u);  // even
  EXPECT_EQ(Encode(kBfloat16, kAbove + 0x1p-7, Rounding::kNearest), 0x3f82u);
  EXPECT_EQ(Encode(kBfloat16, kAbove, Rounding::kUp), 0x3f81u);
  EXPECT_EQ(Encode(kBfloat16, -kAbove, Rounding::kUp), 0xbf80u);
  EXPECT_EQ(Encode(kBfloat16, -kAbove, Rounding::kDown), 0xbf81u);
  EXPECT_EQ(Encode(kFloat16, 1e6, Rounding::kNearest), 0x7c00u);
  EXPECT_EQ(Encode(kFloat16, 1e6, Rounding::kZero), 0x7bffu);
  EXPECT_EQ(Encode(kE4M3, 1e6, Rounding::kNearest, true), 0x7eu);
  EXPECT_EQ(Encode(kE4M3, 1e6, Rounding::kNearest), 0x7fu);
}

// ---- The checker

class CheckerTest : public testing::Test {
 protected:
  CheckerTest() : checker_(operations_, findings_), shadow_(1024) {}
  void Touch(OperationId id, uint64_t offset, uint64_t bytes, Checker::Access access) {
    Accessor who;
    who.stamp.operation = id;
    checker_.Touch(shadow_, offset, bytes, access, who, {name_});
  }
  size_t Found() { return findings_.Take().size(); }

  const std::string name_ = "memory";
  Operations operations_;
  Findings findings_;
  Checker checker_;
  Shadow shadow_;
};

TEST_F(CheckerTest, OperationsOfStreamsThatNothingOrdersRaceWhereTheyOverlap) {
  const OperationId write = operations_.Add("write", 0, {1});
  const OperationId other = operations_.Add("other", 1, {0, 1});
  const OperationId after = operations_.Add("after", 1, {1, 2});
  Touch(write, 0, 512, Checker::Access::kWrite);
  Touch(other, 512, 512, Checker::Access::kWrite);
  EXPECT_EQ(Found(), 0u);
  Touch(after, 0, 1024, Checker::Access::kRead);
  EXPECT_EQ(Found(), 0u);
  Touch(other, 510, 2, Checker::Access::kRead);
  EXPECT_EQ(Found(), 1u);
}

TEST_F(CheckerTest, AWriteAfterAnyOfThreeReadersIsARace) {
  const OperationId write = operations_.Add("write", 0, {1});
  std::vector<OperationId> readers;
  for (int stream = 1; stream <= 3; ++stream) {
    StreamClock clock(stream + 1);
    clock[0] = clock[stream] = 1;
    readers.push_back(operations_.Add("read", stream, clock));
  }
  for (int missing = 1; missing <= 3; ++missing) {
    Touch(write, 0, 4, Checker::Access::kWrite);
    for (const OperationId reader : readers) Touch(reader, 0, 4, Checker::Access::kRead);
    StreamClock clock = {2, 1, 1, 1};
    clock[missing] = 0;
    Touch(operations_.Add("again", 0, clock), 0, 4, Checker::Access::kWrite);
    EXPECT_EQ(Found(), 1u) << missing;
    shadow_.Clear();
  }
}

TEST_F(CheckerTest, WhatWasSettledIsOrderedBeforeAll) {
  Touch(operations_.Add("write", 0, {1}), 0, 4, Checker::Access::kWrite);
  operations_.Settle();
  Touch(operations_.Add("read", 1, {0, 1}), 0, 4, Checker::Access::kRead);
  EXPECT_EQ(Found(), 0u);
}

TEST_F(CheckerTest, ASmallAccessSplitsALargeOnesCell) {
  const OperationId id = operations_.Add("write", 0, {1});
  Touch(id, 0, 256, Checker::Access::kWrite);
  Touch(id, 301, 1, Checker::Access::kWrite);
  Touch(id, 100, 2, Checker::Access::kRead);
  EXPECT_EQ(Found(), 0u);
  Touch(id, 300, 1, Checker::Access::kRead);
  Touch(id, 302, 1, Checker::Access::kRead);
  EXPECT_EQ(Found(), 1u);  // one place of the source
}

}  // namespace
}  // namespace strata::standin
