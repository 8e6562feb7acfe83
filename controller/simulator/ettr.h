// Effective training time ratio: productive seconds of a job per second of its life.
#ifndef STRATA_CONTROLLER_SIMULATOR_ETTR_H_
#define STRATA_CONTROLLER_SIMULATOR_ETTR_H_

namespace strata::simulator {

// Of a job that saves after every `interval` seconds of useful work, which costs `stall` seconds,
// and is struck at `rate` per second while it runs:
//
//   interval / ((1/λ + u0) · (e^{λ · (interval + stall)} − 1))
//
// (Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS
// 22(3), 2006, eq. 13, there with the restart's exposure written out; here it is inside u0.)
//
// The process it describes. Work goes on in segments that need τ = interval + stall undisturbed
// seconds; what strikes inside one, the stall included, costs all of the segment so far. Strikes
// come as a Poisson process while ranks run, so a segment is begun e^{λτ} times in the mean, that
// is, struck e^{λτ} − 1 times. An attempt takes min(τ, Exp(λ)) seconds, (1 − e^{−λτ}) / λ in the
// mean, all attempts together (e^{λτ} − 1) / λ; after every strike nothing runs for u0 seconds in
// the mean. The sum is the divisor above.
//
// u0 is thus the mean of whole pauses, from a strike until all ranks train again, whatever its
// distribution: detection, stopping, placing, loading. A second failure meanwhile makes the pause
// longer and counts as no strike of its own. (With a fixed restart R that failures strike too and
// that then begins anew, u0 = (e^{λR} − 1) / λ, and the divisor is e^{λR} (e^{λτ} − 1) / λ: Daly's
// form.) The stall appears once per segment, in τ; u0 does not contain one.
//
// `rate` 0: nothing strikes, interval / (interval + stall).
double ExpectedEttr(double rate, double interval, double stall, double pause);

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_ETTR_H_
