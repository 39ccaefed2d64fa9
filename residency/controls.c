/* The table of controls. */
#include "residency/residency_priv.h"

#include "base/text.h"

struct control {
    const char *framework, *control, *title, *title_ar, *tables, *source, *read_on, *verified;
};

static const struct control controls[] = {
#define CONTROL(...) {__VA_ARGS__},
#include "residency/controls.def"
#undef CONTROL
};

const char *residency_mapping(void)
{
    return RESIDENCY_MAPPING;
}

static struct result put_tables(json_t *row, const char *names, struct error *err)
{
    struct bytes rest = bytes_of_text(names);
    OWNED_JSON list = json_array();

    while (rest.length > 0) {
        const struct bytes name = text_cut(&rest, ' ');
        if (json_array_append_new(list, json_stringn((const char *)name.data, name.length)) != 0) return residency_no_memory(err);
    }
    return residency_put(row, "shown_by", json_incref(list), err);
}

struct result residency_add_controls(struct residency *residency, struct error *err)
{
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        const struct control *control = &controls[i];
        OWNED_JSON row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "framework", control->framework, "control",
                                   control->control, "title", control->title, "title_ar", control->title_ar, "source",
                                   control->source, "read_on", control->read_on, "verified", control->verified);
        if (row == NULL) return residency_no_memory(err);
        TRY(put_tables(row, control->tables, err));
        if (json_array_append(residency->tables[TABLE_CONTROLS], row) != 0) return residency_no_memory(err);
    }
    return SUCCESS;
}
