#include "base/config.h"

#include <confuse.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

#define NAME_MAX_LENGTH 63 /* longer names would not be typed by anybody */

/* What libconfuse says while it parses; it knows no context pointer, so parsing is for one thread at a time. */
static _Thread_local struct {
    char message[200];
} complaint;

static size_t smallest(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein's distance; names are short, so the simple table of one row is enough. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1];
    const size_t columns = strnlen(b, NAME_MAX_LENGTH);

    for (size_t j = 0; j <= columns; j++) row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < columns; j++) {
            const size_t above = row[j + 1];
            row[j + 1] = smallest(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[columns];
}

static void nearest_name(const struct config_form *form, const char *wrong, char out[NAME_MAX_LENGTH + 1])
{
    size_t best = SIZE_MAX;
    const char *found = "";

    for (size_t i = 0; i < form->parameter_count; i++) {
        const size_t here = distance(wrong, form->parameters[i].name);
        if (here < best) best = here, found = form->parameters[i].name;
    }
    for (size_t s = 0; s < form->section_count; s++)
        for (size_t i = 0; i < form->sections[s].parameter_count; i++) {
            const size_t here = distance(wrong, form->sections[s].parameters[i].name);
            if (here < best) best = here, found = form->sections[s].parameters[i].name;
        }
    (void)snprintf(out, NAME_MAX_LENGTH + 1, "%s", found);
}

__attribute__((format(printf, 2, 0))) static void complain(cfg_t *cfg, const char *format, va_list args)
{
    const int line = cfg == NULL ? 0 : cfg->line;
    const int used = snprintf(complaint.message, sizeof complaint.message, "line %d: ", line);

    (void)vsnprintf(complaint.message + used, sizeof complaint.message - (size_t)used, format, args);
}

static cfg_opt_t option_of(const struct config_parameter *parameter)
{
    /* All values are read as text, so that integers are checked by our own strict reader. */
    return (cfg_opt_t)CFG_STR(parameter->name, NULL, CFGF_NODEFAULT);
}

NO_LEAK_BEGIN /* reading_done() frees it: an element of what the caller holds */
static struct result options_of(const struct config_parameter *parameters, size_t count, size_t extra,
                                cfg_opt_t **options_out, struct error *err)
{
    cfg_opt_t *options = memory_zeroed(count + extra + 1, sizeof *options);

    if (options == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu parameters", count);
    for (size_t i = 0; i < count; i++) options[i] = option_of(&parameters[i]);
    *options_out = options;
    return SUCCESS;
}
NO_LEAK_END

static struct result set_integer(const struct config_parameter *parameter, const char *text, int64_t *place,
                                 struct error *err)
{
    uint64_t value = 0;

    if (!text_to_u64(bytes_of_text(text), INT64_MAX, &value) || (int64_t)value < parameter->minimum ||
        (int64_t)value > parameter->maximum)
        return failure(err, ERROR_INVALID, "%s = %.40s: a whole number from %" PRId64 " to %" PRId64 " %s",
                       parameter->name, text, parameter->minimum, parameter->maximum, parameter->unit);
    *place = (int64_t)value;
    return SUCCESS;
}

static struct result set_value(const struct config_parameter *parameter, const char *text, void *holder,
                               struct error *err)
{
    uint8_t *place = (uint8_t *)holder + parameter->offset;

    switch (parameter->type) {
    case CONFIG_TEXT:
        if (strlen(text) >= CONFIG_TEXT_SIZE)
            return failure(err, ERROR_INVALID, "%s: at most %d characters", parameter->name, CONFIG_TEXT_SIZE - 1);
        memcpy(place, text, strlen(text) + 1);
        return SUCCESS;
    case CONFIG_INTEGER: return set_integer(parameter, text, (int64_t *)(void *)place, err);
    case CONFIG_BOOLEAN:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return failure(err, ERROR_INVALID, "%s = %.40s: yes or no", parameter->name, text);
        *(bool *)place = strcmp(text, "yes") == 0;
        return SUCCESS;
    }
    return failure(err, ERROR_INVALID, "%s has no type", parameter->name);
}

static struct result set_defaults(const struct config_parameter *parameters, size_t count, void *holder,
                                  struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (parameters[i].initial != NULL) TRY(set_value(&parameters[i], parameters[i].initial, holder, err));
    return SUCCESS;
}

static struct result take_values(cfg_t *cfg, const struct config_parameter *parameters, size_t count, void *holder,
                                 struct error *err)
{
    TRY(set_defaults(parameters, count, holder, err));
    for (size_t i = 0; i < count; i++) {
        const char *text = cfg_size(cfg, parameters[i].name) > 0 ? cfg_getstr(cfg, parameters[i].name) : NULL;
        if (text != NULL)
            TRY(set_value(&parameters[i], text, holder, err));
        else if (parameters[i].initial == NULL)
            return failure(err, ERROR_INVALID, "%s must be given: %s", parameters[i].name, parameters[i].help);
    }
    return SUCCESS;
}

static struct result take_section(cfg_t *cfg, const struct config_section *section, void *settings, struct error *err)
{
    const size_t count = cfg_size(cfg, section->name);
    uint8_t *array = (uint8_t *)settings + section->array_offset;

    if (count > section->maximum)
        return failure(err, ERROR_INVALID, "at most %zu sections '%s'", section->maximum, section->name);
    for (size_t i = 0; i < count; i++) {
        cfg_t *one = cfg_getnsec(cfg, section->name, (unsigned)i);
        const char *title = cfg_title(one);
        if (title == NULL || title[0] == '\0' || strlen(title) >= CONFIG_TEXT_SIZE)
            return failure(err, ERROR_INVALID, "a section '%s' needs a title", section->name);
        memcpy(array + i * section->element_size, title, strlen(title) + 1);
        TRY(take_values(one, section->parameters, section->parameter_count, array + i * section->element_size, err));
    }
    *(size_t *)(void *)((uint8_t *)settings + section->count_offset) = count;
    return SUCCESS;
}

/* What is allocated while a file is read. */
struct reading {
    cfg_opt_t *options;
    cfg_opt_t **section_options;
    size_t section_count;
    cfg_t *cfg;
};

static void reading_done(struct reading *reading)
{
    if (reading->cfg != NULL) (void)cfg_free(reading->cfg);
    for (size_t i = 0; reading->section_options != NULL && i < reading->section_count; i++)
        free(reading->section_options[i]);
    free(reading->section_options);
    free(reading->options);
}

static struct result reading_begin(const struct config_form *form, struct reading *reading, struct error *err)
{
    TRY(options_of(form->parameters, form->parameter_count, form->section_count, &reading->options, err));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what is made */
    reading->section_options = memory_zeroed(form->section_count + 1, sizeof *reading->section_options);
    if (reading->section_options == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a configuration");
    reading->section_count = form->section_count;
    for (size_t i = 0; i < form->section_count; i++) {
        const struct config_section *section = &form->sections[i];
        TRY(options_of(section->parameters, section->parameter_count, 0, &reading->section_options[i], err));
        reading->options[form->parameter_count + i] = (cfg_opt_t)CFG_SEC(
            section->name, reading->section_options[i], CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES);
    }
    reading->cfg = cfg_init(reading->options, CFGF_NONE);
    if (reading->cfg == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a configuration");
    (void)cfg_set_error_function(reading->cfg, complain);
    return SUCCESS;
}

static struct result parse_failure(const struct config_form *form, const char *path, struct error *err)
{
    const char *open = strchr(complaint.message, '\'');
    const char *close = open == NULL ? NULL : strchr(open + 1, '\'');
    char wrong[NAME_MAX_LENGTH + 1] = "", nearest[NAME_MAX_LENGTH + 1] = "";

    if (strstr(complaint.message, "no such option") == NULL || close == NULL)
        return failure(err, ERROR_INVALID, "%.60s: %s", path, complaint.message);
    (void)snprintf(wrong, sizeof wrong, "%.*s", (int)(close - open - 1), open + 1);
    nearest_name(form, wrong, nearest);
    return failure(err, ERROR_INVALID, "%.60s: %s; did you mean '%s'?", path, complaint.message, nearest);
}

struct result config_defaults(const struct config_form *form, void *settings, struct error *err)
{
    return set_defaults(form->parameters, form->parameter_count, settings, err);
}

struct result config_read(const struct config_form *form, const char *path, void *settings, struct error *err)
{
    struct reading __attribute__((cleanup(reading_done))) reading = {0};

    TRY(reading_begin(form, &reading, err));
    complaint.message[0] = '\0';
    const int outcome = cfg_parse(reading.cfg, path);
    if (outcome == CFG_FILE_ERROR) return failure(err, ERROR_NOT_FOUND, "can't read %.200s", path);
    if (outcome != CFG_SUCCESS) return parse_failure(form, path, err);
    TRY(take_values(reading.cfg, form->parameters, form->parameter_count, settings, err));
    for (size_t i = 0; i < form->section_count; i++) TRY(take_section(reading.cfg, &form->sections[i], settings, err));
    return SUCCESS;
}

static struct result write_parameters(const struct config_parameter *parameters, size_t count, const char *indent,
                                      struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct config_parameter *parameter = &parameters[i];
        TRY(buffer_format(text, err, "%s# %s", indent, parameter->help));
        if (parameter->type == CONFIG_INTEGER)
            TRY(buffer_format(text, err, " (%" PRId64 " to %" PRId64 "%s%s)", parameter->minimum, parameter->maximum,
                              parameter->unit[0] == '\0' ? "" : " ", parameter->unit));
        if (parameter->type == CONFIG_BOOLEAN) TRY(buffer_add_text(text, " (yes or no)", err));
        if (parameter->initial == NULL)
            TRY(buffer_format(text, err, "; must be given\n%s#%s = \"\"\n", indent, parameter->name));
        else
            TRY(buffer_format(text, err, "\n%s%s = \"%s\"\n", indent, parameter->name, parameter->initial));
    }
    return SUCCESS;
}

struct result config_write_sample(const struct config_form *form, struct buffer *text, struct error *err)
{
    TRY(write_parameters(form->parameters, form->parameter_count, "", text, err));
    for (size_t i = 0; i < form->section_count; i++) {
        const struct config_section *section = &form->sections[i];
        TRY(buffer_format(text, err, "\n# %s\n#%s \"title\" {\n", section->help, section->name));
        TRY(write_parameters(section->parameters, section->parameter_count, "#    ", text, err));
        TRY(buffer_add_text(text, "#}\n", err));
    }
    return SUCCESS;
}
