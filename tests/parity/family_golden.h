// A tiny model of a family and what transformers computes of it: see families_parity.py.
#ifndef STRATA_TESTS_PARITY_FAMILY_GOLDEN_H_
#define STRATA_TESTS_PARITY_FAMILY_GOLDEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model/model_spec.h"
#include "model/optimizer/adamw.h"
#include "model/optimizer/schedule.h"
#include "nlohmann/json.hpp"
#include "program/ir/parameter_set.h"

namespace strata::parity {

class FamilyGolden {
 public:
  // The files' names, without folder and ending: those stored, or those of STRATA_PARITY_GOLDENS.
  static std::vector<std::string> Names();
  // Ends the process when the file is not as the script writes it.
  explicit FamilyGolden(const std::string& name);

  const model::ModelSpec& spec() const { return spec_; }
  int64_t steps() const { return steps_; }
  int64_t batch() const { return batch_; }
  int64_t sequence() const { return sequence_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }       // [steps, B, T]
  const std::vector<int32_t>& targets() const { return targets_; }     // -1: not trained on
  std::vector<float> logits() const { return Read<float>("logits"); }  // of the first step
  std::vector<float> bf16_logits() const { return Read<float>("bf16_logits"); }
  double bf16_loss() const { return bf16_loss_; }
  double bf16_norm() const { return bf16_norm_; }  // of all gradients
  std::vector<double> losses() const { return Read<double>("losses"); }
  std::vector<double> norms() const { return Read<double>("norms"); }
  const model::AdamWSpec& adamw() const { return adamw_; }
  const model::ScheduleSpec& schedule() const { return schedule_; }
  double gradient_clip() const { return gradient_clip_; }

  // Of a logical tensor, row-major.
  std::vector<float> Weight(const std::string& name) const;
  std::vector<float> Gradient(const std::string& name) const;
  // Of a set's flat layout on a rank; padding stays what it is.
  void FillWeights(const program::ParameterSet& set, int64_t rank, absl::Span<float> flat) const;

 private:
  template <typename T>
  std::vector<T> Read(const std::string& name) const;
  // The logical tensor's elements of those that the file's tensor has.
  std::vector<float> Part(const std::string& name, const std::vector<float>& stored) const;
  const checkpoint::SafetensorsEntry& StoredGradient(const std::string& name) const;

  std::unique_ptr<checkpoint::SafetensorsReader> reader_;
  nlohmann::json scales_;
  uint64_t seed_ = 0;
  model::ModelSpec spec_;
  model::AdamWSpec adamw_;
  model::ScheduleSpec schedule_;
  double gradient_clip_ = 0, bf16_loss_ = 0, bf16_norm_ = 0;
  int64_t steps_ = 0, batch_ = 0, sequence_ = 0;
  std::vector<int32_t> tokens_, targets_;
};

}  // namespace strata::parity

#endif  // STRATA_TESTS_PARITY_FAMILY_GOLDEN_H_
