/* Manifests: an accepted manifest has valid digests, each once, and a known media type. */
#include <assert.h>
#include <string.h>

#include "registry/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(manifest) *manifest = NULL;
    struct digest digest;
    struct error err;

    if (!manifest_parse((struct bytes){data, size}, (struct bytes){0}, &manifest, &err).ok) return 0;
    assert(manifest_media_type_is_known(bytes_of_text(manifest->media_type)));
    for (size_t i = 0; i < manifest->reference_count; i++) {
        const struct manifest_reference *reference = &manifest->references[i];
        assert(digest_parse(bytes_of_text(reference->digest), &digest, &err).ok && reference->size_bytes >= 0);
        assert(i == 0 || strcmp(reference[-1].digest, reference->digest) <= 0);
    }
    return 0;
}
