// SPDX-License-Identifier: MIT
//
// Computes until it is killed, in a function with a name to be found.
__attribute__((noinline)) unsigned long spin_and_mix(unsigned long state) {
  for (int i = 0; i < 100000; i++) state = state * 6364136223846793005u + 1442695040888963407u;
  return state;
}

int main(void) {
  volatile unsigned long state = 1;
  for (;;) state = spin_and_mix(state);
}
