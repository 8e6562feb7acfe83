// Names of a checkpoint directory's folders.
//
//   DIRECTORY/.epoch-E/step-00000020/rank-K.safetensors   being written by epoch E
//   DIRECTORY/step-00000020/{rank-K.safetensors,manifest.json}   published
//   DIRECTORY/.step-00000020.deleting   on its way out
//   DIRECTORY/.step-00000020.damaged (then .2.damaged, ...)   set aside on resume
#ifndef STRATA_CHECKPOINT_LAYOUT_H_
#define STRATA_CHECKPOINT_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>

namespace strata::checkpoint {

std::string StepFolderName(int64_t step);    // "step-00000020"
std::string EpochFolderName(int64_t epoch);  // ".epoch-3"
std::string RankFileName(int rank);          // "rank-0.safetensors"
std::string DeletingFolderName(int64_t step);
bool IsDeletingFolderName(const std::string& name);
std::string DamagedFolderName(int64_t step, int count);  // count from 1
bool IsDamagedFolderName(const std::string& name);
std::optional<int64_t> StepFromFolderName(const std::string& name);
std::optional<int64_t> EpochFromFolderName(const std::string& name);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_LAYOUT_H_
