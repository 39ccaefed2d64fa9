#include "base/config.h"

#include <confuse.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#define FILE_MAX_BYTES  (1024 * 1024) /* a configuration is written by hand, so it is small */
#define NAME_MAX_LENGTH 63            /* nobody would type a longer name */
#define FLAG_GIVEN      (1 << 30)     /* the file has this option; a flag of ours, far above libconfuse's */
#define TWICE_MAX       8             /* duplicate names that are reported together */
#define UNKNOWN_MAX     16            /* unknown names that are reported together; the file is read again for each */

/* The messages of libconfuse while it parses. It passes no context, so one thread parses at a time. */
static _Thread_local struct {
    char message[200];
    char twice[TWICE_MAX][120];
    size_t twice_count;
} complaint;

/* Appended to the file: libconfuse accepts the end of a file as the end of a section, so a truncated file would be accepted. */
static const char last_name[] = "end_of_this_file";

static size_t smallest(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein's distance. Names are short, so a table of one row is enough. */
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

/* All values are read as text, so our own strict reader checks integers. */
static cfg_opt_t option_of(const char *name)
{
    return (cfg_opt_t)CFG_STR(name, NULL, CFGF_NODEFAULT);
}

/* libconfuse would silently keep the last value, which may not be the intended one. */
static int note_twice(cfg_t *cfg, cfg_opt_t *option, const char *value, void *text_out)
{
    if ((option->flags & FLAG_GIVEN) != 0 && complaint.twice_count < TWICE_MAX)
        (void)snprintf(complaint.twice[complaint.twice_count++], sizeof complaint.twice[0],
                       "line %d: '%s' is given twice: keep one", cfg->line, option->name);
    option->flags |= FLAG_GIVEN;
    *(const char **)text_out = value;
    return 0;
}

static struct result set_integer(const struct config_parameter *parameter, const char *text, int64_t *destination,
                                 struct error *err)
{
    uint64_t value = 0;

    if (!text_to_u64(bytes_of_text(text), INT64_MAX, &value) || (int64_t)value < parameter->minimum ||
        (int64_t)value > parameter->maximum)
        return failure(err, ERROR_INVALID, "%s = %.40s: a whole number from %" PRId64 " to %" PRId64 " %s", parameter->name, text,
                       parameter->minimum, parameter->maximum, parameter->unit);
    *destination = (int64_t)value;
    return SUCCESS;
}

static struct result set_value(const struct config_parameter *parameter, const char *text, void *holder, struct error *err)
{
    uint8_t *destination = (uint8_t *)holder + parameter->offset;

    switch (parameter->type) {
    case CONFIG_TEXT:
        if (strlen(text) >= CONFIG_TEXT_SIZE)
            return failure(err, ERROR_INVALID, "%s: at most %d characters", parameter->name, CONFIG_TEXT_SIZE - 1);
        memcpy(destination, text, strlen(text) + 1);
        return SUCCESS;
    case CONFIG_INTEGER: return set_integer(parameter, text, (int64_t *)(void *)destination, err);
    case CONFIG_BOOLEAN:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return failure(err, ERROR_INVALID, "%s = %.40s: yes or no", parameter->name, text);
        *(bool *)destination = strcmp(text, "yes") == 0;
        return SUCCESS;
    }
    return failure(err, ERROR_INVALID, "%s has no type", parameter->name);
}

static struct result set_defaults(const struct config_parameter *parameters, size_t count, void *holder, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (parameters[i].initial != NULL) TRY(set_value(&parameters[i], parameters[i].initial, holder, err));
    return SUCCESS;
}

/* Adds the section and its title (NULL: none) to a problem. */
static void report(struct problems *problems, const char *section, const char *title, const struct error *why)
{
    if (title == NULL) problems_add(problems, why);
    else problems_say(problems, why->kind, "%s %.63s: %s", section, title, why->message);
}

static struct result take_value(cfg_t *cfg, const struct config_parameter *parameter, void *holder, struct error *err)
{
    const char *text = cfg_size(cfg, parameter->name) > 0 ? cfg_getstr(cfg, parameter->name) : NULL;

    if (text != NULL) return set_value(parameter, text, holder, err);
    if (parameter->initial != NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s must be given: %s", parameter->name, parameter->help);
}

static void take_values(cfg_t *cfg, const struct config_form *form, void *settings, struct problems *problems)
{
    for (size_t i = 0; i < form->parameter_count; i++) {
        struct error why = {0};
        if (!take_value(cfg, &form->parameters[i], settings, &why).ok) report(problems, NULL, NULL, &why);
    }
}

/* Default values are always valid. */
static void take_element(cfg_t *cfg, const struct config_section *section, uint8_t *element, struct problems *problems)
{
    const char *title = cfg_title(cfg);
    struct error why = {0};

    if (title == NULL || title[0] == '\0' || strlen(title) >= CONFIG_TEXT_SIZE) {
        problems_say(problems, ERROR_INVALID, "a section '%s' needs a title", section->name);
        return;
    }
    memcpy(element, title, strlen(title) + 1);
    if (!set_defaults(section->parameters, section->parameter_count, element, &why).ok)
        report(problems, section->name, title, &why);
    for (size_t i = 0; i < section->parameter_count; i++)
        if (!take_value(cfg, &section->parameters[i], element, &why).ok) report(problems, section->name, title, &why);
}

static void take_section(cfg_t *cfg, const struct config_section *section, void *settings, struct problems *problems)
{
    size_t count = cfg_size(cfg, section->name);
    uint8_t *array = (uint8_t *)settings + section->array_offset;

    if (count > section->maximum) {
        problems_say(problems, ERROR_INVALID, "at most %zu sections '%s'", section->maximum, section->name);
        count = section->maximum;
    }
    for (size_t i = 0; i < count; i++)
        take_element(cfg_getnsec(cfg, section->name, (unsigned)i), section, array + i * section->element_size, problems);
    *(size_t *)(void *)((uint8_t *)settings + section->count_offset) = count;
}

/* Unknown names. Each is reported once and then accepted, so that the rest of the file is read too. */
struct unknown {
    char names[UNKNOWN_MAX][NAME_MAX_LENGTH + 1];
    size_t count;
};

/* Memory that is allocated while a file is read. */
struct reading {
    cfg_opt_t *options;
    cfg_opt_t **section_options;
    size_t section_count;
    cfg_t *cfg;
};

static void reading_done(struct reading *reading)
{
    if (reading->cfg != NULL) (void)cfg_free(reading->cfg);
    for (size_t i = 0; reading->section_options != NULL && i < reading->section_count; i++) free(reading->section_options[i]);
    free(reading->section_options);
    free(reading->options);
}

NO_LEAK_BEGIN /* it becomes an element of the caller's array, and reading_done() frees it */
    static struct result
    options_of(const struct config_parameter *parameters, size_t count, const struct unknown *unknown, size_t extra,
               cfg_opt_t **options_out, struct error *err)
{
    cfg_opt_t *options = memory_zeroed(count + unknown->count + extra + 1, sizeof *options);

    if (options == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu parameters", count);
    for (size_t i = 0; i < count; i++) {
        options[i] = option_of(parameters[i].name);
        options[i].parsecb = note_twice;
    }
    for (size_t i = 0; i < unknown->count; i++) options[count + i] = option_of(unknown->names[i]);
    *options_out = options;
    return SUCCESS;
}
NO_LEAK_END

static struct result reading_begin(const struct config_form *form, const struct unknown *unknown, struct reading *reading,
                                   struct error *err)
{
    TRY(options_of(form->parameters, form->parameter_count, unknown, form->section_count + 1, &reading->options, err));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the array really holds pointers */
    reading->section_options = memory_zeroed(form->section_count + 1, sizeof *reading->section_options);
    if (reading->section_options == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a configuration");
    reading->section_count = form->section_count;
    for (size_t i = 0; i < form->section_count; i++) {
        const struct config_section *section = &form->sections[i];
        TRY(options_of(section->parameters, section->parameter_count, unknown, 0, &reading->section_options[i], err));
        reading->options[form->parameter_count + unknown->count + i] =
            (cfg_opt_t)CFG_SEC(section->name, reading->section_options[i], CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES);
    }
    reading->options[form->parameter_count + unknown->count + form->section_count] = option_of(last_name);
    reading->cfg = cfg_init(reading->options, CFGF_NONE);
    if (reading->cfg == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a configuration");
    (void)cfg_set_error_function(reading->cfg, complain);
    return SUCCESS;
}

/* The unknown name that libconfuse complains about; "" for another complaint. */
static void name_complained_of(char name[NAME_MAX_LENGTH + 1])
{
    const char *open = strchr(complaint.message, '\'');
    const char *close = open == NULL ? NULL : strchr(open + 1, '\'');

    name[0] = '\0';
    if (strstr(complaint.message, "no such option") == NULL || close == NULL) return;
    (void)snprintf(name, NAME_MAX_LENGTH + 1, "%.*s", (int)(close - open - 1), open + 1);
}

static void report_unknown(const struct config_form *form, const char *name, struct problems *problems)
{
    char nearest[NAME_MAX_LENGTH + 1] = "";

    for (size_t i = 0; i < form->removed_count; i++)
        if (strcmp(form->removed[i].name, name) == 0) {
            problems_say(problems, ERROR_INVALID, "%.*s'%s' must not stand here any more: %s",
                         (int)(strcspn(complaint.message, ":") + 2), complaint.message, name, form->removed[i].instead);
            return;
        }
    nearest_name(form, name, nearest);
    problems_say(problems, ERROR_INVALID, "%s; did you mean '%s'?", complaint.message, nearest);
}

/* Accepts one more unknown name. False: the file can't be read further. */
static bool learn_unknown(const struct config_form *form, struct unknown *unknown, struct problems *problems)
{
    char name[NAME_MAX_LENGTH + 1];

    name_complained_of(name);
    if (name[0] == '\0') {
        problems_say(problems, ERROR_INVALID, "%s", complaint.message);
        return false;
    }
    if (strcmp(name, last_name) == 0) {
        problems_say(problems, ERROR_INVALID, "this file ends inside a section: a closing } is missing");
        return false;
    }
    for (size_t i = 0; i < unknown->count; i++)
        if (strcmp(unknown->names[i], name) == 0) return false; /* truncated: it is longer than any of our names */
    report_unknown(form, name, problems);
    if (unknown->count == UNKNOWN_MAX) return false;
    memcpy(unknown->names[unknown->count++], name, sizeof name);
    return true;
}

struct result config_defaults(const struct config_form *form, void *settings, struct error *err)
{
    return set_defaults(form->parameters, form->parameter_count, settings, err);
}

enum parsed { PARSED, PARSED_UNKNOWN, PARSED_NOT };

/* An unclosed comment or a zero byte hides the appended last line. */
static void report_form(cfg_t *cfg, struct problems *problems)
{
    if (cfg_size(cfg, last_name) == 0)
        problems_say(problems, ERROR_INVALID, "this file can't be read to its end: a comment is open, or a byte is zero");
    for (size_t i = 0; i < complaint.twice_count; i++) problems_say(problems, ERROR_INVALID, "%s", complaint.twice[i]);
}

static enum parsed parse_once(const struct config_form *form, const char *text, struct unknown *unknown, void *settings,
                              struct problems *problems)
{
    struct reading __attribute__((cleanup(reading_done))) reading = {0};
    struct error why = {0};

    if (!reading_begin(form, unknown, &reading, &why).ok) {
        problems_add(problems, &why);
        return PARSED_NOT;
    }
    complaint.message[0] = '\0';
    complaint.twice_count = 0;
    const int outcome = cfg_parse_buf(reading.cfg, text);
    if (outcome != CFG_SUCCESS) return learn_unknown(form, unknown, problems) ? PARSED_UNKNOWN : PARSED_NOT;
    report_form(reading.cfg, problems);
    take_values(reading.cfg, form, settings, problems);
    for (size_t i = 0; i < form->section_count; i++) take_section(reading.cfg, &form->sections[i], settings, problems);
    return PARSED;
}

bool config_read_all(const struct config_form *form, const char *path, void *settings, struct problems *problems)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX_BYTES);
    struct unknown unknown = {.count = 0};
    struct error why = {0};
    enum parsed parsed;

    struct result ready = config_defaults(form, settings, &why);
    if (ready.ok) ready = file_read(path, &text, &why);
    if (ready.ok) ready = buffer_format(&text, &why, "\n%s = yes\n", last_name);
    if (!ready.ok) {
        problems_add(problems, &why);
        return false;
    }
    do parsed = parse_once(form, buffer_text(&text), &unknown, settings, problems);
    while (parsed == PARSED_UNKNOWN);
    return parsed == PARSED;
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
        if (parameter->initial == NULL) TRY(buffer_format(text, err, "; must be given\n%s#%s = \"\"\n", indent, parameter->name));
        else TRY(buffer_format(text, err, "\n%s%s = \"%s\"\n", indent, parameter->name, parameter->initial));
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
