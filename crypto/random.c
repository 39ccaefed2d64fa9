#include "crypto/random.h"

#include "crypto/sodium_priv.h"

void random_bytes(void *out, size_t length)
{
    sodium_ready();
    randombytes_buf(out, length);
}
