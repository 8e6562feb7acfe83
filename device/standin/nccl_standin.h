// NCCL's stand-in, as tests see it. The API is NCCL's, nccl.h, for ranks that are threads of one
// process, each with a device of its own (Options::device_count), or processes of one machine
// (Options::ranks_are_processes):
//
//   standin::Reset({.device_count = 8});
//   … threads: cudaSetDevice(rank), ncclCommInitRankConfig, ncclAllReduce, … on streams …
//   EXPECT_THAT(standin::TakeFindings(), IsEmpty());
//
// An operation runs when the streams of all its members have come to it. What its members read and
// write is declared to the checker, and what follows it is ordered behind what precedes those it
// got something from. Members that disagree are a finding of kind kCollective that names both.
//
// FailCall knows NCCL's functions by name too: they return ncclUnhandledCudaError.
#ifndef STRATA_DEVICE_STANDIN_NCCL_STANDIN_H_
#define STRATA_DEVICE_STANDIN_NCCL_STANDIN_H_

#include <nccl.h>

#include <string>

namespace strata::standin {

// From now on, the communicators of a device answer polls for asynchronous errors with `error`, and
// their operations that have not run never do, as when a network fails: until they are aborted,
// streams hang.
void FailCommunicators(int device, ncclResult_t error);

// The same of one communicator, the n-th from 0 that the device made, whose operations end instead
// without having run, as if it had been aborted: streams go on.
void CutOffCommunicator(int device, int n, ncclResult_t error);

// An operation of a non-blocking communicator is on its stream only after so many polls of
// ncclCommGetAsyncError; until then it is ncclInProgress. 1 after Reset.
void SetPollsToIssue(int polls);

// What streams stand at that wait for others, a line each: for tests of hangs.
std::string DescribeWaits();

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_STANDIN_H_
