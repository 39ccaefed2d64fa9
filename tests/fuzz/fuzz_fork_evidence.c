/* Evidence that is taken has two checkpoints, both signed, that contradict each other; and no text of it is longer than the file. */
#include <assert.h>

#include "audit/format/fork.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VKEY "test.example/audit+41592fc6+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fork_pair pair;
    struct error err;

    if (!fork_evidence_check(bytes_of_text(VKEY), (struct bytes){data, size}, &pair, &err).ok) return 0;
    assert(pair.checkpoints[0].size <= pair.checkpoints[1].size);
    assert(pair.checkpoints[0].size < pair.checkpoints[1].size ||
           !merkle_hash_equal(&pair.checkpoints[0].root, &pair.checkpoints[1].root));
    assert(pair.notes[0].length + pair.notes[1].length < size);
    return 0;
}
