// Ring: keys and values go around while those at hand are attended to; on the way back their
// gradients follow them, a step behind (Liu, Zaharia, Abbeel, "Ring Attention", 2023).
// All-gather: all ranks' keys and values at once; their gradients are reduced and scattered.
// All-to-all: each rank has all rows of its share of the heads (Jacobs et al., "DeepSpeed Ulysses",
// 2023); key heads that are fewer than ranks go to several.
#include "model/graph/context_attention.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "model/graph/attention_shape.h"

namespace strata::model {
namespace {

using program::Group;

class PartsOfSequences {
 public:
  PartsOfSequences(Emitter& e, const Node& node)
      : e_(e),
        node_(node),
        held_(AttentionShapeOf(e, node)),
        ranks_(e.shape().context_ranks),
        gathers_(e.shape().context_method == program::ContextMethod::kAllGather),
        queries_(held_.heads * held_.head_size),
        kv_width_(2 * held_.kv_heads * held_.head_size),
        kv_bytes_(program::BytesOf(held_.type, held_.rows() * kv_width_)) {}

  void Forward() {
    const View qkv = e_.In(node_, 0), out = e_.Out(node_, 0), lse = e_.Out(node_, 1);
    Visit(qkv, [&](const ContextPart& part, const View& kv) {
      AttentionPart(e_.builder(), part, qkv, kv, out, lse, e_.InOrNone(node_, 1));
    });
  }

  void Backward() {
    TemplateBuilder& builder = e_.builder();
    const View dout = e_.In(node_, 0), qkv = e_.In(node_, 1), out = e_.In(node_, 2);
    const View lse = e_.In(node_, 3), dqkv = e_.Out(node_, 0), positions = e_.InOrNone(node_, 4);
    const View delta = e_.Scratch("delta", held_.rows() * held_.heads);
    AttentionDelta(builder, held_, dout, out, delta);
    View own;  // gradient of the own keys and values
    if (gathers_) {
      own = Scratch("own key gradients", kv_bytes_);
      const View all = Scratch("all key gradients", ranks_ * kv_bytes_)
                           .Marked(program::PartialOver(Group::kContext));
      const View scratch =
          Scratch("key gradients' scratch", ReduceScatterScratchBytes(ranks_ * kv_bytes_, ranks_));
      Visit(qkv, [&](const ContextPart& part, const View& kv) {
        AttentionPartBackward(builder, part, {dout, qkv, kv, lse, delta, dqkv, all}, positions);
      });
      ReduceScatter(builder, Group::kContext, all, own, scratch);
    } else {
      // What has come with the keys, and what this rank adds.
      std::array<View, 2> sums;
      for (View& sum : sums) sum = Local("key gradients", kv_bytes_);
      const View added = Scratch("added key gradients", kv_bytes_);
      Visit(qkv, [&](const ContextPart& part, const View& kv) {
        const View& sum = sums[part.step % 2];
        AttentionPartBackward(builder, part,
                              {dout, qkv, kv, lse, delta, dqkv, part.step == 0 ? sum : added},
                              positions);
        if (part.step > 0) Add(builder, sum, added);
        Rotate(builder, Group::kContext, sum, sums[(part.step + 1) % 2]);
      });
      own = sums[ranks_ % 2];
    }
    MoveBlocks(builder,
               {.rows = held_.rows(),
                .width = kv_width_,
                .from_row = kv_width_,
                .to_row = held_.qkv_width(),
                .keeps = true},
               own, dqkv.FromColumn(queries_));
  }

 private:
  View Local(const char* name, int64_t bytes) {
    return e_.builder().Local(name, bytes, program::SlotClass::kCommunication).As(held_.type);
  }
  View Scratch(const char* name, int64_t bytes) {
    return e_.Scratch(name, bytes, program::DType::kBytes).As(held_.type);
  }

  // Calls body(part, keys and values) for what comes at a time.
  template <typename Body>
  void Visit(const View& qkv, const Body& body) {
    TemplateBuilder& builder = e_.builder();
    std::array<View, 2> turns;
    for (View& turn : turns) {
      turn = Local("keys and values", kv_bytes_);
      if (gathers_) break;
    }
    MoveBlocks(builder,
               {.rows = held_.rows(),
                .width = kv_width_,
                .from_row = held_.qkv_width(),
                .to_row = kv_width_},
               qkv.FromColumn(queries_), turns[0]);
    if (gathers_) {
      const View all = Local("all keys and values", ranks_ * kv_bytes_);
      AllGather(builder, Group::kContext, turns[0], all);
      return body({.held = held_, .ranks = ranks_, .gathered = true}, all);
    }
    for (int64_t step = 0; step < ranks_; ++step) {
      if (step + 1 < ranks_) {
        Rotate(builder, Group::kContext, turns[step % 2], turns[(step + 1) % 2]);
      }
      body({.held = held_, .ranks = ranks_, .step = step}, turns[step % 2]);
    }
  }

  Emitter& e_;
  const Node& node_;
  const AttentionShape held_;
  const int64_t ranks_;
  const bool gathers_;
  const int64_t queries_, kv_width_, kv_bytes_;
};

// Columns of rows by heads, of which every rank is sent its share: neighbouring heads, or one that
// it has with others.
struct Section {
  int64_t heads = 0;  // of all ranks
  int64_t width = 0;  // elements of a head
};

class ShareOfHeads {
 public:
  ShareOfHeads(Emitter& e, const Node& node)
      : e_(e),
        node_(node),
        held_(AttentionShapeOf(e, node)),
        ranks_(e.shape().context_ranks),
        whole_{.batch = held_.batch,
               .sequence = held_.sequence * ranks_,
               .heads = held_.heads / ranks_,
               .kv_heads = std::max<int64_t>(1, held_.kv_heads / ranks_),
               .head_size = held_.head_size,
               .scores = held_.scores,
               .type = held_.type},
        queries_{held_.heads, held_.head_size},
        keys_{held_.kv_heads, held_.head_size} {}

  void Forward() {
    const View qkv = WholeOf("whole qkv", whole_.qkv_width());
    const View sent = Ranked("sent heads", whole_.qkv_width());
    PackQkv(e_.In(node_, 0), sent, 0, whole_.qkv_width());
    Order(Exchange(sent, whole_.qkv_width()), whole_.qkv_width(), qkv);
    const View out = WholeOf("whole attention", OutWidth());
    AttentionForward(e_.builder(), whole_, qkv, out, e_.Out(node_, 1), WholePositions(1));
    const View back = Ranked("sent attention", OutWidth());
    OrderRows(e_.builder(), Ordering(OutWidth(), 0, true), back, out);
    Unpack(queries_, Exchange(back, OutWidth()), 0, OutWidth(), e_.Out(node_, 0), 0, OutRow(),
           true);
  }

  void Backward() {
    const int64_t qkv_width = whole_.qkv_width();
    // One exchange of all that the backward reads.
    const int64_t width = qkv_width + 2 * OutWidth();
    const View sent = Ranked("sent heads", width);
    PackQkv(e_.In(node_, 1), sent, 0, width);
    const int64_t rows = held_.rows();
    Pack(queries_, e_.In(node_, 2), 0, OutRow(), sent, rows * qkv_width, OutWidth(), width, true);
    Pack(queries_, e_.In(node_, 0), 0, OutRow(), sent, rows * (qkv_width + OutWidth()), OutWidth(),
         width, true);
    const View got = Exchange(sent, width);
    const View qkv = WholeOf("whole qkv", qkv_width);
    const View out = WholeOf("whole attention", OutWidth());
    const View dout = WholeOf("whole attention gradient", OutWidth());
    Order(got, width, qkv, qkv_width, 0);
    Order(got, width, out, OutWidth(), rows * qkv_width);
    Order(got, width, dout, OutWidth(), rows * (qkv_width + OutWidth()));
    const View dqkv = WholeOf("whole qkv gradient", qkv_width);
    AttentionBackward(e_.builder(), whole_, dout, qkv, out, e_.In(node_, 3), dqkv,
                      WholePositions(4));
    const View back = Ranked("sent gradients", qkv_width);
    OrderRows(e_.builder(), Ordering(qkv_width, 0, true), back, dqkv);
    const View returned = Exchange(back, qkv_width);
    const View to = e_.Out(node_, 0);
    const int64_t row = held_.qkv_width(), kv = held_.kv_heads * held_.head_size;
    const int64_t own_q = whole_.heads * held_.head_size;
    const int64_t own_kv = whole_.kv_heads * held_.head_size;
    Unpack(queries_, returned, 0, qkv_width, to, 0, row, true);
    Unpack(keys_, returned, own_q, qkv_width, to, OutRow(), row, false);
    Unpack(keys_, returned, own_q + own_kv, qkv_width, to, OutRow() + kv, row, false);
  }

 private:
  int64_t OutWidth() const { return whole_.heads * whole_.head_size; }  // of a share
  int64_t OutRow() const { return held_.heads * held_.head_size; }

  View WholeOf(const char* name, int64_t width) {
    const int64_t bytes = program::BytesOf(held_.type, whole_.rows() * width);
    return e_.builder().Local(name, bytes).As(held_.type);
  }
  View Ranked(const char* name, int64_t width) {
    const int64_t bytes = program::BytesOf(held_.type, ranks_ * held_.rows() * width);
    return e_.builder().Local(name, bytes, program::SlotClass::kCommunication).As(held_.type);
  }
  View Exchange(const View& sent, int64_t width) {
    const View got = Ranked("received heads", width);
    AllToAll(e_.builder(), Group::kContext, ranks_, sent, got);
    return got;
  }

  // Those of all ranks' rows, in order, of the node's input with the own ones; empty without it.
  View WholePositions(size_t input) {
    const View own = e_.InOrNone(node_, input);
    if (own.slot < 0) return own;
    const View ranked =
        e_.builder()
            .Local("ranks' positions", whole_.rows() * 4, program::SlotClass::kCommunication)
            .As(own.type);
    const View ordered = e_.builder().Local("whole positions", whole_.rows() * 4).As(own.type);
    AllGather(e_.builder(), Group::kContext, own, ranked);
    Order(ranked, 1, ordered);
    return ordered;
  }

  ops::OrderRows Ordering(int64_t width, int64_t stride, bool inverse) const {
    return {.batch = held_.batch,
            .ranks = ranks_,
            .rows = held_.sequence,
            .width = width,
            .stride = stride > 0 ? stride : held_.rows() * width,
            .inverse = inverse};
  }
  // Of what came, `width` elements per row of each rank, the section of `columns` that begins `at`.
  void Order(const View& got, int64_t width, const View& to, int64_t columns = 0, int64_t at = 0) {
    if (columns == 0) columns = width;
    OrderRows(e_.builder(), Ordering(columns, held_.rows() * width, false), got.FromColumn(at), to);
  }

  void PackQkv(const View& qkv, const View& sent, int64_t at, int64_t width) {
    const int64_t row = held_.qkv_width(), kv = held_.kv_heads * held_.head_size;
    const int64_t own_q = whole_.heads * held_.head_size;
    const int64_t own_kv = whole_.kv_heads * held_.head_size;
    const int64_t own_row = whole_.qkv_width();
    Pack(queries_, qkv, 0, row, sent, at, own_row, width, false);
    Pack(keys_, qkv, OutRow(), row, sent, at + own_q, own_row, width, true);
    Pack(keys_, qkv, OutRow() + kv, row, sent, at + own_q + own_kv, own_row, width, true);
  }

  // Rows' section from column `from_at` on; to rank after rank, `width` elements of each row in
  // all, this section's rows `to_row` apart from element `to_at` on.
  void Pack(const Section& section, const View& from, int64_t from_at, int64_t from_row,
            const View& to, int64_t to_at, int64_t to_row, int64_t width, bool keeps) {
    const int64_t share = Share(section), several = Several(section);
    for (int64_t first = 0; first < ranks_; first += Together(section)) {
      MoveBlocks(e_.builder(),
                 {.blocks = Together(section),
                  .rows = held_.rows(),
                  .width = share,
                  .from_block = several > 1 ? 0 : share,
                  .from_row = from_row,
                  .to_block = held_.rows() * width,
                  .to_row = to_row,
                  .keeps = keeps || first > 0},
                 from.FromColumn(from_at + first / several * share),
                 to.FromColumn(to_at + first * held_.rows() * width));
    }
  }

  // The way back; of what several ranks had, the sum. `fresh`: nothing is in `to` yet.
  void Unpack(const Section& section, const View& from, int64_t from_at, int64_t width,
              const View& to, int64_t to_at, int64_t to_row, bool fresh) {
    const int64_t share = Share(section), several = Several(section);
    for (int64_t first = 0; first < ranks_; first += Together(section)) {
      ops::MoveBlocks move{.blocks = several > 1 ? 1 : ranks_,
                           .rows = held_.rows(),
                           .width = share,
                           .from_block = held_.rows() * width,
                           .from_row = width,
                           .to_block = several > 1 ? 0 : share,
                           .to_row = to_row,
                           .keeps = !fresh || first > 0};
      const auto at = [&](int64_t rank) {
        return from.FromColumn(from_at + rank * held_.rows() * width);
      };
      const View into = to.FromColumn(to_at + first / several * share);
      MoveBlocks(e_.builder(), move, at(first), into);
      if (several == 1) continue;
      move.blocks = several - 1;
      move.adds = true;
      MoveBlocks(e_.builder(), move, at(first + 1), into);
    }
  }

  // Columns that a rank is sent, ranks that are sent the same ones, ranks that one move is for.
  int64_t Share(const Section& section) const {
    return std::max<int64_t>(1, section.heads / ranks_) * section.width;
  }
  int64_t Several(const Section& section) const {
    return std::max<int64_t>(1, ranks_ / section.heads);
  }
  int64_t Together(const Section& section) const {
    return Several(section) > 1 ? Several(section) : ranks_;
  }

  Emitter& e_;
  const Node& node_;
  const AttentionShape held_;
  const int64_t ranks_;
  const AttentionShape whole_;  // all rows, a share of the heads
  const Section queries_, keys_;
};

bool SharesHeads(const Emitter& emitter) {
  return emitter.shape().context_method == program::ContextMethod::kAllToAll;
}

}  // namespace

void ContextAttentionForward(Emitter& emitter, const Node& node) {
  if (SharesHeads(emitter)) return ShareOfHeads(emitter, node).Forward();
  PartsOfSequences(emitter, node).Forward();
}

void ContextAttentionBackward(Emitter& emitter, const Node& node) {
  if (SharesHeads(emitter)) return ShareOfHeads(emitter, node).Backward();
  PartsOfSequences(emitter, node).Backward();
}

}  // namespace strata::model
