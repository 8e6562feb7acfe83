#include "kernels/attention.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/attention.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

using reference::Positions;
using reference::QkvColumns;

// out, then lse.
Doubles ReferenceForward(const AttentionShape& s, const Doubles& qkv,
                         const Positions& positions = {}) {
  const reference::Attention attention = reference::AttentionForward(s, qkv, positions);
  return testing::Concat({attention.out, attention.lse});
}

Floats Forward(const Context& context, const AttentionShape& s, const Floats& qkv,
               const Positions& positions = {}) {
  // Outputs begin as no numbers: all of them must be written.
  Floats out(s.batch * s.sequence * s.heads * s.head_size, std::nanf(""));
  Floats lse(s.batch * s.heads * s.sequence, std::nanf(""));
  testing::Workspace workspace(AttentionForwardWorkspaceBytes(s, context.pool->threads()));
  AttentionForward(context, s, qkv.data(), positions.empty() ? nullptr : positions.data(),
                   out.data(), lse.data(), workspace.get());
  return testing::Concat({out, lse});
}

Floats Backward(const Context& context, const AttentionShape& s, const Floats& qkv,
                const Floats& dout, const Positions& positions = {}) {
  const Floats forward = Forward(context, s, qkv, positions);
  Floats dqkv(qkv.size(), std::nanf(""));
  testing::Workspace workspace(AttentionBackwardWorkspaceBytes<float>(s, context.pool->threads()));
  AttentionBackward(context, s, dout.data(), qkv.data(), forward.data(),
                    forward.data() + dout.size(), positions.empty() ? nullptr : positions.data(),
                    dqkv.data(), workspace.get());
  return dqkv;
}

const AttentionShape kShapes[] = {
    {.batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 8},
    {.batch = 2, .sequence = 7, .heads = 3, .kv_heads = 3, .head_size = 5},
    {.batch = 2, .sequence = 97, .heads = 4, .kv_heads = 2, .head_size = 16},
    {.batch = 1, .sequence = 96, .heads = 2, .kv_heads = 2, .head_size = 24},
    {.batch = 1, .sequence = 211, .heads = 5, .kv_heads = 1, .head_size = 40},
    {.batch = 1, .sequence = 300, .heads = 2, .kv_heads = 1, .head_size = 64},
    {.batch = 1, .sequence = 5, .heads = 101, .kv_heads = 1, .head_size = 4},
    {.batch = 3, .sequence = 130, .heads = 7, .kv_heads = 7, .head_size = 33},
    {.batch = 1, .sequence = 110, .heads = 2, .kv_heads = 1, .head_size = 80},
    {.batch = 1, .sequence = 150, .heads = 1, .kv_heads = 1, .head_size = 96},
    {.batch = 1, .sequence = 120, .heads = 2, .kv_heads = 1, .head_size = 256},
    // Windows inside a tile of keys, across tiles, of one row, of more rows than there are.
    {.batch = 2,
     .sequence = 211,
     .heads = 4,
     .kv_heads = 2,
     .head_size = 16,
     .scores = {.window = 37}},
    {.batch = 1,
     .sequence = 400,
     .heads = 2,
     .kv_heads = 2,
     .head_size = 64,
     .scores = {.window = 130}},
    {.batch = 1,
     .sequence = 40,
     .heads = 3,
     .kv_heads = 1,
     .head_size = 10,
     .scores = {.window = 1}},
    {.batch = 1,
     .sequence = 40,
     .heads = 3,
     .kv_heads = 1,
     .head_size = 10,
     .scores = {.window = 100}},
    {.batch = 1,
     .sequence = 200,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 24,
     .scores = {.softcap = 1.5F}},
    {.batch = 1,
     .sequence = 200,
     .heads = 4,
     .kv_heads = 2,
     .head_size = 32,
     .scores = {.window = 64, .softcap = 50, .scale = 0.3F}},
};

TEST(Attention, ForwardMatchesTheReference) {
  for (const AttentionShape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << "T " << s.sequence << " H " << s.heads);
    const Floats qkv = testing::Random(s.batch * s.sequence * QkvColumns(s), 1);
    const Floats result =
        testing::RunWithThreads([&](const Context& context) { return Forward(context, s, qkv); });
    testing::ExpectClose(result, ReferenceForward(s, testing::Widen(qkv)), 2e-6);
  }
}

TEST(Attention, BackwardMatchesTheReference) {
  for (const AttentionShape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << "T " << s.sequence << " H " << s.heads);
    const Floats qkv = testing::Random(s.batch * s.sequence * QkvColumns(s), 1);
    const Floats dout = testing::Random(s.batch * s.sequence * s.heads * s.head_size, 2);
    const Floats result = testing::RunWithThreads(
        [&](const Context& context) { return Backward(context, s, qkv, dout); });
    testing::ExpectClose(
        result, reference::AttentionBackward(s, testing::Widen(qkv), testing::Widen(dout)), 4e-6);
  }
}

TEST(Attention, BackwardMatchesFiniteDifferences) {
  const AttentionShape s = {.batch = 1, .sequence = 9, .heads = 4, .kv_heads = 2, .head_size = 6};
  const Floats qkv = testing::Random(s.sequence * QkvColumns(s), 3);
  const Floats dout = testing::Random(s.sequence * s.heads * s.head_size, 4);
  const Doubles weights = testing::Widen(dout);
  const Doubles expected = testing::FiniteDifferences(testing::Widen(qkv), [&](const Doubles& x) {
    return testing::Dot(weights, ReferenceForward(s, x));
  });
  device::ThreadPool pool(1);
  testing::ExpectClose(Backward({&pool}, s, qkv, dout), expected, 1e-5);
  testing::ExpectClose(reference::AttentionBackward(s, testing::Widen(qkv), weights), expected,
                       1e-7);
}

// Documents of the lengths given, over and over, in all rows of B sequences; the last of a sequence
// is cut.
Positions DocumentsOf(const AttentionShape& s, const std::vector<int32_t>& lengths) {
  Positions positions;
  size_t next = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t row = 0; row < s.sequence;) {
      const int32_t length = lengths[next++ % lengths.size()];
      for (int32_t i = 0; i < length && row < s.sequence; ++i, ++row) positions.push_back(i);
    }
  }
  return positions;
}

// Of random lengths, most of them short.
Positions RandomDocuments(const AttentionShape& s, uint64_t seed) {
  std::vector<int32_t> lengths;
  for (uint64_t i = 0; i < 64; ++i) {
    const uint64_t bits = common::MixBits(seed, i);
    lengths.push_back(1 + static_cast<int32_t>((bits >> 8) % (1 << (1 + bits % 8))));
  }
  return DocumentsOf(s, lengths);
}

const std::vector<int32_t> kLayouts[] = {
    {1}, {1000}, {95, 1}, {2, 1, 97, 3, 50, 1, 1, 200}, {7, 6, 5, 4, 3}};

template <typename Check>
void ForDocuments(const Check& check) {
  for (const AttentionShape& s : kShapes) {
    for (const std::vector<int32_t>& lengths : kLayouts) {
      SCOPED_TRACE(::testing::Message()
                   << "T " << s.sequence << " H " << s.heads << " documents of " << lengths[0]);
      check(s, DocumentsOf(s, lengths));
    }
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << "T " << s.sequence << " random " << seed);
      check(s, RandomDocuments(s, seed));
    }
  }
}

TEST(Attention, ForwardInsideDocumentsMatchesTheReference) {
  ForDocuments([](const AttentionShape& s, const Positions& positions) {
    const Floats qkv = testing::Random(s.batch * s.sequence * QkvColumns(s), 1);
    const Floats result = testing::RunWithThreads(
        [&](const Context& context) { return Forward(context, s, qkv, positions); });
    testing::ExpectClose(result, ReferenceForward(s, testing::Widen(qkv), positions), 2e-6);
  });
}

TEST(Attention, BackwardInsideDocumentsMatchesTheReference) {
  ForDocuments([](const AttentionShape& s, const Positions& positions) {
    const Floats qkv = testing::Random(s.batch * s.sequence * QkvColumns(s), 1);
    const Floats dout = testing::Random(s.batch * s.sequence * s.heads * s.head_size, 2);
    const Floats result = testing::RunWithThreads(
        [&](const Context& context) { return Backward(context, s, qkv, dout, positions); });
    testing::ExpectClose(
        result,
        reference::AttentionBackward(s, testing::Widen(qkv), testing::Widen(dout), positions),
        4e-6);
  });
}

TEST(Attention, BackwardInsideDocumentsMatchesFiniteDifferences) {
  const AttentionShape s = {.batch = 1, .sequence = 9, .heads = 4, .kv_heads = 2, .head_size = 6};
  const Positions positions = {0, 1, 2, 0, 0, 1, 2, 3, 0};
  const Floats qkv = testing::Random(s.sequence * QkvColumns(s), 3);
  const Doubles weights = testing::Widen(testing::Random(s.sequence * s.heads * s.head_size, 4));
  const Doubles expected = testing::FiniteDifferences(testing::Widen(qkv), [&](const Doubles& x) {
    return testing::Dot(weights, ReferenceForward(s, x, positions));
  });
  testing::ExpectClose(reference::AttentionBackward(s, testing::Widen(qkv), weights, positions),
                       expected, 1e-7);
}

// A sequence that is one document has the bits of one without documents.
TEST(Attention, OneDocumentHasTheBitsOfNone) {
  for (const AttentionShape& s : kShapes) {
    const Positions positions = DocumentsOf(s, {static_cast<int32_t>(s.sequence)});
    const Floats qkv = testing::Random(s.batch * s.sequence * QkvColumns(s), 1);
    const Floats dout = testing::Random(s.batch * s.sequence * s.heads * s.head_size, 2);
    device::ThreadPool pool(1);
    EXPECT_TRUE(testing::SameBits(Forward({&pool}, s, qkv, positions), Forward({&pool}, s, qkv)));
    EXPECT_TRUE(testing::SameBits(Backward({&pool}, s, qkv, dout, positions),
                                  Backward({&pool}, s, qkv, dout)));
  }
}

TEST(Attention, BackwardOfCappedScoresInAWindowMatchesFiniteDifferences) {
  const AttentionShape s = {.batch = 1,
                            .sequence = 9,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_size = 6,
                            .scores = {.window = 4, .softcap = 0.7F, .scale = 0.5F}};
  const Floats qkv = testing::Random(s.sequence * QkvColumns(s), 3);
  const Doubles weights = testing::Widen(testing::Random(s.sequence * s.heads * s.head_size, 4));
  const Doubles expected = testing::FiniteDifferences(testing::Widen(qkv), [&](const Doubles& x) {
    return testing::Dot(weights, ReferenceForward(s, x));
  });
  testing::ExpectClose(reference::AttentionBackward(s, testing::Widen(qkv), weights), expected,
                       1e-7);
}

// Results are those of the rounded operands, rounded once: half a unit of the last place, and what
// rounding `out` does to delta. Tiles round probabilities and gradients of scores to bf16 too, by
// 2^-9 each, which sums of several average.
template <typename T>
void CheckSixteenBits(const AttentionShape& s, const Positions& positions, double tolerance) {
  const auto qkv = testing::RandomOf<T>(s.batch * s.sequence * QkvColumns(s), 1);
  const auto dout = testing::RandomOf<T>(s.batch * s.sequence * s.heads * s.head_size, 2);
  const int32_t* of_rows = positions.empty() ? nullptr : positions.data();
  const size_t rows = s.batch * s.heads * s.sequence;
  const Floats results = testing::RunWithThreads([&](const Context& context) {
    const int threads = context.pool->threads();
    std::vector<T> out(dout.size()), dqkv(qkv.size());
    Floats lse(rows);
    testing::Workspace forward(AttentionForwardWorkspaceBytes(s, threads));
    AttentionForward(context, s, qkv.data(), of_rows, out.data(), lse.data(), forward.get());
    testing::Workspace backward(AttentionBackwardWorkspaceBytes<T>(s, threads));
    AttentionBackward(context, s, dout.data(), qkv.data(), out.data(), lse.data(), of_rows,
                      dqkv.data(), backward.get());
    return testing::Concat({lse, testing::Back(out), testing::Back(dqkv)});
  });
  const auto part = [&](size_t begin, size_t count) {
    return Floats(results.begin() + begin, results.begin() + begin + count);
  };
  const Doubles exact = testing::WidenOf(qkv), weights = testing::WidenOf(dout);
  const reference::Attention expected = reference::AttentionForward(s, exact, positions);
  testing::ExpectClose(part(0, rows), expected.lse, 5e-6);
  testing::ExpectClose(part(rows, dout.size()), expected.out, tolerance);
  testing::ExpectClose(part(rows + dout.size(), qkv.size()),
                       reference::AttentionBackward(s, exact, weights, positions), 2 * tolerance);
}

TEST(Attention, OfBFloat16_IsThatOfItsOperands) {
  for (const AttentionShape& s : kShapes) {
    for (const Positions& positions :
         {Positions(), DocumentsOf(s, {2, 1, 97, 3, 50, 1, 1, 200}), RandomDocuments(s, 1)}) {
      SCOPED_TRACE(::testing::Message()
                   << "T " << s.sequence << " H " << s.heads << " documents " << positions.size());
      CheckSixteenBits<BFloat16>(s, positions, 0x1p-8);
    }
  }
}

TEST(Attention, OfFloat16_IsThatOfItsOperands) {
  for (const AttentionShape& s : kShapes) {
    SCOPED_TRACE(::testing::Message() << "T " << s.sequence << " H " << s.heads);
    CheckSixteenBits<Float16>(s, {}, 0x1p-11);
  }
}

TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  const AttentionShape s = {.batch = 1, .sequence = 120, .heads = 1, .kv_heads = 1, .head_size = 8};
  const Floats qkv = testing::Random(s.sequence * QkvColumns(s), 5, 6.0f);
  device::ThreadPool pool(1);
  testing::ExpectClose(Forward({&pool}, s, qkv), ReferenceForward(s, testing::Widen(qkv)), 1e-5);
}

// What ranks have of each sequence: blocks r and 2n - 1 - r of 2n.
std::vector<RowSpan> SpansOf(int64_t ranks, int64_t rank, int64_t block) {
  return {{.first = 0, .count = block, .position = rank * block},
          {.first = block, .count = block, .position = (2 * ranks - 1 - rank) * block}};
}

// Columns [first, first + width) of the rows of [B, T, columns] that a rank has.
template <typename T>
std::vector<T> RowsOf(const std::vector<T>& all, const AttentionShape& s,
                      const std::vector<RowSpan>& spans, int64_t columns, int64_t first,
                      int64_t width) {
  std::vector<T> rows;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (const RowSpan& span : spans) {
      for (int64_t i = 0; i < span.count; ++i) {
        const int64_t at = (b * s.sequence + span.position + i) * columns + first;
        rows.insert(rows.end(), all.begin() + at, all.begin() + at + width);
      }
    }
  }
  return rows;
}

void PutRows(const Floats& rows, const AttentionShape& s, const std::vector<RowSpan>& spans,
             int64_t columns, int64_t first, int64_t width, bool adds, Floats& all) {
  auto from = rows.begin();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (const RowSpan& span : spans) {
      for (int64_t i = 0; i < span.count; ++i) {
        const int64_t at = (b * s.sequence + span.position + i) * columns + first;
        for (int64_t c = 0; c < width; ++c, ++from) all[at + c] = *from + (adds ? all[at + c] : 0);
      }
    }
  }
}

// Attention by the ranks of a context group: each starts with its own keys and goes on to those of
// the ranks before it, or takes all in order, of documents from its own on. Gives out, then dqkv.
template <typename T>
Floats ByParts(const Context& context, const AttentionShape& s, int64_t ranks, bool in_order,
               const Floats& qkv, const Floats& dout, const Positions& positions = {}) {
  const int64_t block = s.sequence / (2 * ranks), columns = QkvColumns(s);
  const int64_t q = s.heads * s.head_size, kv = 2 * s.kv_heads * s.head_size;
  AttentionShape held = s;
  held.sequence = 2 * block;
  Floats all_out(dout.size()), dqkv(qkv.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<RowSpan> own = SpansOf(ranks, rank, block);
    const std::vector<T> own_qkv = testing::As<T>(RowsOf(qkv, s, own, columns, 0, columns));
    const std::vector<T> own_dout = testing::As<T>(RowsOf(dout, s, own, q, 0, q));
    const T nan = FromFloat<T>(std::nanf(""));
    std::vector<T> out(own_dout.size(), nan), own_dqkv(own_qkv.size(), nan);
    Floats lse(s.batch * s.heads * held.sequence, std::nanf("")), delta(lse.size());
    const Positions own_positions =
        positions.empty() ? Positions() : RowsOf(positions, s, own, 1, 0, 1);
    testing::Workspace forward(AttentionPartForwardWorkspaceBytes(held, context.pool->threads()));
    testing::Workspace backward(
        AttentionPartBackwardWorkspaceBytes<T>(held, context.pool->threads()));
    const auto each = [&](auto body) {
      for (int64_t i = 0; i < ranks; ++i) {
        const bool own_first = !positions.empty() || s.scores.window > 0;
        const int64_t begin = own_first ? rank : 0;
        const int64_t of = in_order ? (begin + i) % ranks : (rank - i + ranks) % ranks;
        const std::vector<RowSpan> spans = SpansOf(ranks, of, block);
        const int32_t* of_rows = positions.empty() ? nullptr : own_positions.data();
        body(AttentionPartShape{held, own, spans, of_rows},
             testing::As<T>(RowsOf(qkv, s, spans, columns, q, kv)), i == 0);
      }
    };
    each([&](const AttentionPartShape& shape, const std::vector<T>& keys, bool first) {
      AttentionPartForward(context, shape, own_qkv.data(), keys.data(), first, out.data(),
                           lse.data(), forward.get());
    });
    AttentionDelta(context, held, own_dout.data(), out.data(), delta.data());
    each([&](const AttentionPartShape& shape, const std::vector<T>& keys, bool first) {
      std::vector<T> dkeys(keys.size(), nan);
      AttentionPartBackward(context, shape, own_dout.data(), own_qkv.data(), keys.data(),
                            lse.data(), delta.data(), first, own_dqkv.data(), dkeys.data(),
                            backward.get());
      PutRows(testing::Back(dkeys), s, shape.keys, columns, q, kv, true, dqkv);
    });
    PutRows(testing::Back(out), s, own, q, 0, q, false, all_out);
    std::vector<T> dq;
    for (size_t i = 0; i < own_dqkv.size(); i += columns) {
      dq.insert(dq.end(), own_dqkv.begin() + i, own_dqkv.begin() + i + q);
    }
    PutRows(testing::Back(dq), s, own, columns, 0, q, false, dqkv);
  }
  return testing::Concat({all_out, dqkv});
}

template <typename T>
void CheckParts(double tolerance) {
  struct Case {
    AttentionShape shape;
    int64_t ranks;
  };
  const Case kCases[] = {
      {{.batch = 2, .sequence = 4, .heads = 1, .kv_heads = 1, .head_size = 2}, 2},
      {{.batch = 1, .sequence = 40, .heads = 4, .kv_heads = 2, .head_size = 6}, 1},
      {{.batch = 2, .sequence = 42, .heads = 6, .kv_heads = 2, .head_size = 10}, 3},
      {{.batch = 1, .sequence = 28, .heads = 7, .kv_heads = 1, .head_size = 4}, 2},
      {{.batch = 1, .sequence = 808, .heads = 3, .kv_heads = 3, .head_size = 33}, 4},
      {{.batch = 2, .sequence = 404, .heads = 14, .kv_heads = 2, .head_size = 16}, 2},
      {{.batch = 1,
        .sequence = 404,
        .heads = 2,
        .kv_heads = 2,
        .head_size = 16,
        .scores = {.window = 60}},
       2},
      {{.batch = 1,
        .sequence = 48,
        .heads = 2,
        .kv_heads = 1,
        .head_size = 8,
        .scores = {.window = 5, .softcap = 2}},
       3},
  };
  for (const auto& [s, ranks] : kCases) {
    const Floats qkv = testing::Back(testing::RandomOf<T>(s.batch * s.sequence * QkvColumns(s), 1));
    const Floats dout =
        testing::Back(testing::RandomOf<T>(s.batch * s.sequence * s.heads * s.head_size, 2));
    const Doubles out = reference::AttentionForward(s, testing::Widen(qkv)).out;
    const Doubles expected = testing::Concat(
        {out, reference::AttentionBackward(s, testing::Widen(qkv), testing::Widen(dout))});
    for (const bool in_order : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "T " << s.sequence << " ranks " << ranks << in_order);
      const Floats result = testing::RunWithThreads([&](const Context& context) {
        return ByParts<T>(context, s, ranks, in_order, qkv, dout);
      });
      testing::ExpectClose(result, expected, tolerance);
    }
    for (const uint64_t seed : {1, 2}) {
      const Positions positions = RandomDocuments(s, seed);
      const Doubles inside = testing::Concat(
          {reference::AttentionForward(s, testing::Widen(qkv), positions).out,
           reference::AttentionBackward(s, testing::Widen(qkv), testing::Widen(dout), positions)});
      for (const bool in_order : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "T " << s.sequence << " ranks " << ranks << in_order << " random " << seed);
        device::ThreadPool pool(2);
        testing::ExpectClose(ByParts<T>({&pool}, s, ranks, in_order, qkv, dout, positions), inside,
                             tolerance);
      }
    }
  }
}

TEST(Attention, ByTheRanksOfAContextGroup_MatchesTheReference) { CheckParts<float>(4e-6); }
// Each rank's part of keys rounds what stands so far.
TEST(Attention, OfBFloat16ByTheRanksOfAContextGroup_IsClose) { CheckParts<BFloat16>(0x1p-6); }

// Decodes a sequence in pieces and compares with attention over all of it.
template <typename T>
void CheckDecoding(const ScoreOptions& scores, double tolerance) {
  const AttentionShape s = {
      .batch = 2, .sequence = 150, .heads = 6, .kv_heads = 2, .head_size = 20, .scores = scores};
  const int64_t columns = QkvColumns(s), out_columns = s.heads * s.head_size;
  const auto qkv = testing::RandomOf<T>(s.batch * s.sequence * columns, 1);
  const Doubles expected = ReferenceForward(s, testing::WidenOf(qkv));
  const Floats result = testing::RunWithThreads([&](const Context& context) {
    constexpr int64_t kCapacity = 160;
    std::vector<T> k_cache(s.batch * kCapacity * s.kv_heads * s.head_size,
                           FromFloat<T>(std::nanf("")));
    std::vector<T> v_cache = k_cache, out(s.batch * s.sequence * out_columns);
    int64_t position = 0;
    for (const int64_t rows : {100, 1, 1, 37, 2, 1, 8}) {
      const DecodeShape decode = {.batch = s.batch,
                                  .rows = rows,
                                  .context = kCapacity,
                                  .position = position,
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .head_size = s.head_size,
                                  .scores = scores};
      std::vector<T> piece(s.batch * rows * columns), piece_out(s.batch * rows * out_columns);
      for (int64_t b = 0; b < s.batch; ++b) {
        std::memcpy(&piece[b * rows * columns], &qkv[(b * s.sequence + position) * columns],
                    rows * columns * sizeof(T));
      }
      testing::Workspace workspace(DecodeAttentionWorkspaceBytes(decode, context.pool->threads()));
      AppendToCache(context, decode, piece.data(), k_cache.data(), v_cache.data());
      DecodeAttention(context, decode, piece.data(), k_cache.data(), v_cache.data(),
                      piece_out.data(), workspace.get());
      for (int64_t b = 0; b < s.batch; ++b) {
        std::memcpy(&out[(b * s.sequence + position) * out_columns],
                    &piece_out[b * rows * out_columns], rows * out_columns * sizeof(T));
      }
      position += rows;
    }
    EXPECT_EQ(position, s.sequence);
    return testing::Back(out);
  });
  testing::ExpectClose(result, Doubles(expected.begin(), expected.begin() + result.size()),
                       tolerance);
}

TEST(Attention, DecodingInPiecesMatchesTheWholeSequence) {
  CheckDecoding<float>({}, 2e-6);
  CheckDecoding<BFloat16>({}, 0x1p-8);
}
TEST(Attention, DecodingWithAWindowAndASoftcapMatchesTheWholeSequence) {
  CheckDecoding<float>({.window = 33, .softcap = 3, .scale = 0.4F}, 2e-6);
  CheckDecoding<BFloat16>({.window = 33, .softcap = 3, .scale = 0.4F}, 0x1p-8);
}

}  // namespace
}  // namespace strata::kernels
