// The hardware and software that a step runs on, as the performance model needs them. Rates are per
// device and direction, in bytes or FLOP per second; times in seconds.
#ifndef STRATA_PLANNER_PERFORMANCE_MACHINE_H_
#define STRATA_PLANNER_PERFORMANCE_MACHINE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "planner/performance/shape.h"

namespace strata::planner {

struct Gpu {
  std::string name;
  int64_t generation = 8;  // of its architecture: 7 Volta, 8 Ampere, 9 Hopper, 10 Blackwell
  int64_t processors = 1;  // streaming multiprocessors
  double memory_bytes = 0;
  double memory_rate = 0;
  std::array<double, kPrecisions> peak = {};  // dense FLOP/s by Precision; 0: not supported
  // Of a matrix product: prologue and epilogue of each wave of tiles, and each kernel's own.
  double tile_seconds = 1e-6;
  double kernel_seconds = 3e-6;
  double price_per_hour = 0;  // of one device; 0: not given
};

struct Network {
  int64_t node_devices = 8;
  int64_t domain_devices = 8;  // that NVLink joins
  double domain_rate = 0;
  double domain_efficiency = 0.8;
  double network_rate = 0;
  double network_efficiency = 0.85;
  double host_rate = 0;   // PCIe or C2C
  double page_rate = 0;   // of unified memory, each way
  bool coherent = false;  // device and host reach each other's memory without faults
  // One device's share of its host: 0: not known, and then neither checked nor waited for.
  double host_memory_bytes = 0;
  double host_memory_rate = 0;
  bool host_is_device = false;  // one memory: bytes on the host are bytes of the device
  double disk_rate = 0;         // of one device's share of its node's disks; 0: none
};

// How a family of training programs runs a step. These are facts of the programs, not fitted.
struct Software {
  enum class Attention { kFused, kUnfused };
  Attention attention = Attention::kFused;
  // Of fused attention: what it reaches of the best kernels of its time, and the newest generation
  // it was written for.
  double attention_share = 1;
  int64_t attention_generation = 10;
  double tensor_exposed = 1;     // the part of tensor-parallel collectives that nothing hides
  bool pipeline_overlap = true;  // sends between stages hide in the steady state
  // No more passes are in flight than without sends, so that what these take is waited for wherever
  // the others do not take as long.
  bool pipeline_latency = false;
  // Fully sharded, or sharded gradients, in a pipeline: they move with each micro-batch, as without
  // one. False: gathered parameters stay, and only the last micro-batch reduces (torchtitan, FSDP2
  // with reshard_after_forward off).
  bool pipeline_moves_each = false;
  // Zero2: whole gradients are kept, and parameters gathered for each micro-batch. False: whole
  // parameters, gathered once a step, and parts of gradients.
  bool zero2_gathers_each = true;
  bool context_shares = true;  // context ranks have shards of their own, as data ranks
  // What a block keeps is chosen value by value, and its backward makes again just what it reads:
  // none keeps kUsualValues. False: none keeps everything, full repeats whole forwards.
  bool saves_by_value = false;
  bool data_overlap = true;  // reductions and gathers run beside the first and last micro-batch
  // Fully sharded: collectives that gather a layer, and that scatter it.
  double collectives_per_layer = 1;
  double launch_seconds = 6e-6;  // of the host, per kernel
  bool graphs = false;           // the host launches whole layers at once
  bool narrow_gathers = false;   // tensor-parallel gathers move 8-bit operands where products are
  bool operator_recompute = false;  // what it calls selective is Recompute::kOperators
  double gradient_bytes = 4;        // per element, as it is reduced
  // Of device memory, per logit at the loss: 16-bit logits, 32-bit softmax, its gradient, as far as
  // they are there at once. The default is measured on B200 with fused kernels (SimuMax v1.2).
  double logit_bytes = 4.8;
  double gathered_bytes = 2;  // per parameter, as it is gathered
  // Moved per logit at the loss: 16-bit logits become 32-bit ones, exponentials and their sum, then
  // the gradient.
  double loss_traffic = 22;
};

// At most six numbers per (GPU, precision, software release), fitted to measured steps.
struct Calibration {
  double product = 0.75;           // of the peak, by an endless matrix product
  double attention = 0.5;          // of the 16-bit peak, by an endless fused forward
  double memory = 0.7;             // of the memory's rate, by kernels bound by it
  double communication = 1;        // of the links' usual efficiencies
  double overhead_seconds = 0.02;  // of each step: data, norm, logging, clip
  double straggler = 0.004;        // relative, per doubling of the nodes
};

// Where the members of a group really are: what an actual rank map says.
struct GroupLinks {
  int64_t local = 1;           // next to each other inside one NVLink domain
  double network_rate = 0;     // of the slowest link beyond it, as it arrives; 0: none is crossed
  double latency_seconds = 0;  // of that link
};
struct RankMapLinks {
  GroupLinks tensor, context, data, replicas, pipeline;
};

struct Machine {
  Gpu gpu;
  Network network;
  Software software;
  Calibration calibration;
  // Absent: ranks fill domains in order, and beyond one all links are the network's.
  std::optional<RankMapLinks> rank_map = std::nullopt;
};

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_MACHINE_H_
