// What errors mean that NVIDIA's driver reports of its GPUs (Xid). Numbers, and what is to be done
// at once, by NVIDIA's catalog for A100 and newer:
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (November 2026).
#ifndef STRATA_TOPOLOGY_NVML_XID_H_
#define STRATA_TOPOLOGY_NVML_XID_H_

namespace strata::topology {

enum class XidEffect {
  kNone,      // it says what happened to a process, or what was mended: the GPU works on
  kEndsRank,  // RESTART_APP: the rank's context is lost, and CUDA tells it so; the GPU works on
  kDegrades,  // as kEndsRank or kNone, and somebody should look at the GPU
  kFails,     // RESET_GPU or RESTART_BM: nothing works there before a reset, or a reboot
};

struct XidMeaning {
  XidEffect effect = XidEffect::kNone;
  const char* text = "";
};

// Those that the catalog does not have, or that another one explains, have no effect.
XidMeaning MeaningOf(int xid);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_NVML_XID_H_
