/* The manifest of a container image: what is accepted can be written and read again, and names only blobs with sizes and SHA-256. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/image/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_part(const struct image_part *part)
{
    const struct bytes name = bytes_of_text(image_part_name(part));

    assert(part->size >= 0 && name.length == 64 && text_consists_of(name, "0123456789abcdef"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER text = BUFFER(IMAGE_MANIFEST_MAX);
    static struct image_plan plan, again; /* large for a stack */
    struct error err;

    if (!image_plan_read((struct bytes){data, size}, &plan, &err).ok) return 0;
    assert(plan.count > 0 && plan.count <= IMAGE_LAYERS_MAX && plan.config.size <= IMAGE_CONFIG_MAX);
    check_part(&plan.config);
    for (size_t i = 0; i < plan.count; i++) check_part(&plan.layers[i]);
    if (!image_plan_write(&plan, &text, &err).ok) return 0;
    const bool is_read = image_plan_read(buffer_bytes(&text), &again, &err).ok;
    assert(is_read && again.count == plan.count);
    for (size_t i = 0; i < plan.count; i++)
        assert(strcmp(again.layers[i].digest, plan.layers[i].digest) == 0 && again.layers[i].is_gzip == plan.layers[i].is_gzip);
    return 0;
}
