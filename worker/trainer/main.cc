#include "worker/trainer/trainer_main.h"

int main(int argc, char** argv) { return strata::worker::TrainerMain(argc, argv); }
