#include <cstdio>

int main() {
  std::puts("espalier " ESP_VERSION);
  return 0;
}
