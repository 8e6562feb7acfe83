// The version that the programs of this folder tell.
#ifndef STRATA_WORKER_SHARED_VERSION_H_
#define STRATA_WORKER_SHARED_VERSION_H_

namespace strata::worker {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_VERSION_H_
