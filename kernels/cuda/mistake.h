// Mistakes that tests plant, to see that the stand-in's checker reads these very kernels. They are
// there only in what is compiled with STRATA_CUDA_PLANT_MISTAKES (the *_planted targets); elsewhere
// they fold to false.
#ifndef STRATA_KERNELS_CUDA_MISTAKE_H_
#define STRATA_KERNELS_CUDA_MISTAKE_H_

#include <cstdint>

namespace strata::kernels::cuda {

enum class Mistake : int32_t {
  kNone,
  kNoBarrierBeforeRead,   // of what a block's warps leave for each other
  kNoBarrierBeforeReuse,  // of the place where they leave it
  kNoBound,               // the last elements are not the last
  kNarrowMask,            // lanes that shuffle outside of their own mask
  kInPlaceTooEarly,       // a logit is overwritten before another thread has read it
  kNoCopyWait,            // of asynchronous copies, before what they bring is read
  kWindowOffByOne,        // a window of keys has one too many

  // Of what cuBLASLt is told.
  kRowDistancesSwapped,  // each factor has the other's
  kTransposesSwapped,    // likewise
  kFactorsNotSwapped,    // a b by rows is b a by columns, with both transposed
  kNoBeta,               // a product that is to be added to c replaces it
  kBiasNotSet,           // its place is the one that stood in for it
  kBiasUnaligned,        // one that algorithms cannot read is passed on
  kAlignmentNotTold,     // an algorithm for aligned pointers is given others
  kSumsInOutputType,     // parts of a sum are rounded to 16 bits
  kTf32Unasked,          // f32 factors lose 13 bits
  kWorkspaceTooLarge,    // the library is told of more workspace than it is given
};

// What kernels that start from now on have wrong, in *_planted targets.
void PlantMistake(Mistake mistake);
Mistake PlantedMistake();

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_MISTAKE_H_
