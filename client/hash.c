#include "client/hash.h"

#include "base/file.h"
#include "base/memory.h"

#define PIECE_SIZE ((size_t)1 << 20)

struct result hash_file(int fd, uint64_t length, struct hasher *hasher, struct progress *progress, uint64_t *hashed_out,
                        struct error *err)
{
    OWNED_STRING piece = memory_zeroed(PIECE_SIZE, 1);
    uint64_t hashed = 0;
    size_t got = 1;

    if (piece == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read a file");
    for (; hashed < length && got > 0; hashed += got) {
        const uint64_t left = length - hashed;
        TRY(file_read_some(fd, piece, left < PIECE_SIZE ? (size_t)left : PIECE_SIZE, hashed, &got, err));
        hasher_add(hasher, (struct bytes){(const uint8_t *)piece, got});
        if (progress != NULL) progress_set(progress, hashed + got);
    }
    *hashed_out = hashed;
    return SUCCESS;
}
