#include "registry/project.h"

#include "policy/label.h"

struct result floor_label_write(const json_t *label, struct buffer *text, struct error *err)
{
    struct label parsed;
    bool is_stated = false;

    if (label == NULL) return buffer_add_text(text, "{}", err);
    TRY(label_read_floor(label, &parsed, &is_stated, err));
    return json_write_canonical(text, label, err);
}
