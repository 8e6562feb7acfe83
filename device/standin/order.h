// What a program's calls order, whatever order the work ran in: for proofs that work may overlap,
// and that what host threads do has its place, too.
//
//   SetLabel("forward block 3", step);  // … calls that issue it …
//   const std::vector<Piece> pieces = TakePieces();
//   EXPECT_TRUE(AreConcurrent(pieces[0], pieces[1]));
#ifndef STRATA_DEVICE_STANDIN_ORDER_H_
#define STRATA_DEVICE_STANDIN_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;

namespace strata::standin {

// An operation that a thread issued under a label.
struct Piece {
  std::string label;
  int64_t turn = 0;
  std::string name;  // "a copy to the device", or a kernel's
  int stream = 0;
  std::vector<uint64_t> clock;  // by stream: how much of it comes before, and its own place
};

// Whether `a` ends before `b` begins in every order that the calls allow.
bool IsBefore(const Piece& a, const Piece& b);
bool AreConcurrent(const Piece& a, const Piece& b);

// Of all that the calling thread issues from now on; empty: none. Findings name it. What a graph
// holds has the text of its capture and the turn of its launch.
void SetLabel(std::string text, int64_t turn);

// Those that have run since Reset or the last call.
std::vector<Piece> TakePieces();

// What a host thread does, told to the checker: a stream of its own stands for the thread.
// It has waited for all that `stream` was handed;
void DeclareHostWait(CUstream_st* thread, CUstream_st* stream);
// it reads or writes pinned memory;
void DeclareHostAccess(CUstream_st* thread, const void* at, uint64_t bytes, bool writes);
// it lets a number grow that streams wait for: what waits for it from now on is behind the thread.
void DeclareHostValue(CUstream_st* thread, const uint32_t* at, uint32_t value);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_ORDER_H_
