#include "runner/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "training/format/form.h"

enum { EXIT_NOT_KEPT = 123, EXIT_TIMEOUT = 124, EXIT_OUTPUTS = 125, EXIT_SIGNAL = 128 };

struct attempt {
    const struct attempt_options *options;
    struct run_spec *spec;
    json_t *variables, *outputs;
    char names[RUN_INPUTS_MAX][RUN_NAME_MAX + 1];
    struct payload_options payload;
    struct devices *devices; /* NULL: the run has none */
    struct device_grant grant;
    struct image_layout *layout; /* NULL: no image */
    int folder;                  /* for outputs; -1: none */
    int64_t kept;                /* outputs that were copied to it */
    bool stopped;                /* no further output is kept, because of `why` */
    struct error why;
    bool is_in_line; /* the shown text does not end with a line feed */
};

static void show_log(void *context, bool is_error, struct bytes piece)
{
    struct attempt *attempt = context;

    if (attempt->options->quiet) return;
    (void)!write(is_error ? STDERR_FILENO : STDOUT_FILENO, piece.data, piece.length);
    if (!is_error) attempt->is_in_line = piece.data[piece.length - 1] != '\n';
}

static void show_progress(void *context, const char *line)
{
    struct attempt *attempt = context;

    if (!attempt->options->quiet) (void)fprintf(stderr, "heartbeat: %s\n", line);
}

/* The run has ended, so its report is complete even if the disk is full: the outputs that follow are only hashed. */
static void copy_output(struct attempt *attempt, const struct output_file *file)
{
    if (attempt->folder < 0 || attempt->stopped) return;
    attempt->stopped = !copy_file(file->fd, file->size, attempt->folder, file->path, (unsigned)file->mode, &attempt->why).ok;
    if (attempt->stopped) (void)unlinkat(attempt->folder, file->path, 0); /* otherwise a part of it would look like an output */
    else attempt->kept++;
}

static struct result keep_output(void *context, const struct output_file *file, struct error *err)
{
    struct attempt *attempt = context;
    char digest[DIGEST_TEXT_SIZE];

    digest_format(&file->digest, digest);
    if (json_array_append_new(attempt->outputs, json_pack("{s:s s:I s:s}", "path", file->path, "size", (json_int_t)file->size,
                                                          "digest", digest)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the list of outputs");
    copy_output(attempt, file);
    return SUCCESS;
}

static struct result read_spec(struct attempt *attempt, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);

    struct result read = file_read(attempt->options->spec_file, &text, err);
    if (read.ok && text.length > 0 && strchr(" \t\r\n{", text.data[0]) == NULL)
        read = failure(err, ERROR_INVALID, "not JSON: try takes the specification in JSON, as examples/digits/run.json has it");
    if (read.ok) read = run_spec_read(buffer_bytes(&text), &attempt->spec, err);
    if (!read.ok) failure_name(attempt->options->spec_file, err);
    return read;
}

static struct result take_input(struct attempt *attempt, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals == NULL ? 0 : (size_t)(equals - text), at = attempt->payload.sandbox.input_count;

    if (length == 0 || length > RUN_NAME_MAX || equals[1] == '\0')
        return failure(err, ERROR_INVALID, "--input needs NAME=PATH, and not %.80s", text);
    memcpy(attempt->names[at], text, length);
    attempt->names[at][length] = '\0';
    if (!form_name(attempt->names[at]))
        return failure(err, ERROR_INVALID, "'%.60s' is no name of an input: a-z, 0-9, '-', '_', '.'", attempt->names[at]);
    for (size_t i = 0; i < at; i++)
        if (strcmp(attempt->names[i], attempt->names[at]) == 0)
            return failure(err, ERROR_INVALID, "the input %s is given twice", attempt->names[at]);
    attempt->payload.sandbox.inputs[at] = (struct sandbox_input){.name = attempt->names[at], .path = equals + 1};
    attempt->payload.sandbox.input_count++;
    return SUCCESS;
}

/* The specification names inputs of the registry. Here each needs a local file or folder of the same name. */
static struct result check_inputs(const struct attempt *attempt, struct error *err)
{
    for (size_t i = 0; i < attempt->spec->input_count; i++) {
        bool found = false;
        for (size_t j = 0; j < attempt->payload.sandbox.input_count && !found; j++)
            found = strcmp(attempt->names[j], attempt->spec->inputs[i]) == 0;
        if (!found)
            return failure(err, ERROR_INVALID, "the specification has an input %s: say where it is with --input=%s=PATH",
                           attempt->spec->inputs[i], attempt->spec->inputs[i]);
    }
    return SUCCESS;
}

static struct result check_path(const char *what, const char *path, bool *is_folder_out, struct error *err)
{
    struct stat about;

    if (stat(path, &about) != 0) return failure(err, ERROR_NOT_FOUND, "%.80s: %.160s: %s", what, path, strerror(errno));
    *is_folder_out = S_ISDIR(about.st_mode);
    return SUCCESS;
}

/* Before anything is made, checks the files and folders that will be copied. */
static struct result check_sources(const struct attempt *attempt, struct error *err)
{
    const struct attempt_options *options = attempt->options;
    bool is_folder = true;

    for (size_t i = 0; i < options->input_count; i++)
        TRY(check_path("--input", strchr(options->inputs[i], '=') + 1, &is_folder, err));
    if (options->code == NULL) return SUCCESS;
    TRY(check_path("--code", options->code, &is_folder, err));
    return is_folder ? SUCCESS : failure(err, ERROR_INVALID, "--code needs a folder, and %.160s is none", options->code);
}

static struct result open_output(struct attempt *attempt, struct error *err)
{
    const char *folder = attempt->options->output;

    if (folder == NULL) return SUCCESS;
    if (mkdir(folder, 0755) != 0) return failure(err, ERROR_CONFLICT, "%.160s must be a new folder: %s", folder, strerror(errno));
    return file_open(folder, O_RDONLY | O_DIRECTORY, 0, &attempt->folder, err);
}

static void sample(void *context, const struct cgroup_use *use)
{
    struct attempt *attempt = context;

    (void)use;
    if (attempt->devices != NULL) devices_sample(attempt->devices, &attempt->grant);
}

/* If a requested device is absent, the run is refused: a run never begins with fewer devices. */
static struct result take_devices(struct attempt *attempt, struct error *err)
{
    const struct attempt_options *options = attempt->options;

    if (attempt->spec->devices.count == 0) return SUCCESS;
    TRY(devices_open(options->nvml, &attempt->devices, err));
    return devices_grant(attempt->devices, &attempt->spec->devices, options->devices, &attempt->grant, err);
}

static struct result make_image(void *context, const struct sandbox_folder *folder, struct error *err)
{
    const struct attempt *attempt = context;
    const struct image_options image = {.source = image_layout_source(attempt->layout),
                                        .bytes_max = attempt->options->image_bytes,
                                        .run = &attempt->payload.sandbox};

    TRY(image_fetch(&image, folder, err));
    return image_unpack(&image, folder, err);
}

static struct result open_image(struct attempt *attempt, struct error *err)
{
    if (attempt->options->image == NULL) return SUCCESS;
    TRY(image_tool_check(err));
    TRY(image_layout_open(attempt->options->image, &attempt->layout, err));
    attempt->payload.sandbox.image = make_image;
    return SUCCESS;
}

static struct result prepare(struct attempt *attempt, struct error *err)
{
    const struct attempt_options *options = attempt->options;
    struct payload_options *payload = &attempt->payload;

    TRY(read_spec(attempt, err));
    for (size_t i = 0; i < options->input_count; i++) TRY(take_input(attempt, options->inputs[i], err));
    TRY(check_inputs(attempt, err));
    TRY(check_sources(attempt, err));
    TRY(take_devices(attempt, err));
    TRY(open_image(attempt, err));
    attempt->outputs = json_array();
    if (attempt->outputs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the list of outputs");
    payload->spec = attempt->spec;
    payload->command = options->command[0] == NULL ? NULL : options->command;
    payload->grant = &attempt->grant;
    payload->added = options->added;
    payload->added_count = options->added_count;
    payload->sandbox.isolation = options->has_least ? options->least : attempt->spec->isolation;
    payload->sandbox.code = options->code;
    return open_output(attempt, err);
}

static struct result set(json_t *object, const char *name, json_t *value, struct error *err)
{
    return json_object_set_new(object, name, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for the report");
}

static json_t *digest_json(const struct digest *digest)
{
    char text[DIGEST_TEXT_SIZE];

    digest_format(digest, text);
    return json_string(text);
}

static struct result add_given(const struct attempt *attempt, const struct sandbox_report *report, json_t *json,
                               struct error *err)
{
    json_t *inputs = json_object();

    TRY(set(json, "inputs", inputs, err));
    for (size_t i = 0; i < attempt->payload.sandbox.input_count; i++)
        TRY(set(inputs, attempt->names[i], digest_json(&report->inputs[i]), err));
    if (attempt->payload.sandbox.code != NULL) TRY(set(json, "code", digest_json(&report->code), err));
    if (attempt->devices != NULL) TRY(set(json, "devices", devices_json(attempt->devices, &attempt->grant), err));
    TRY(set(json, "environment", json_incref(attempt->variables), err));
    return set(json, "outputs", json_incref(attempt->outputs), err);
}

static struct result write_report(const struct attempt *attempt, const struct sandbox_report *report, struct buffer *text,
                                  struct error *err)
{
    OWNED_JSON json = json_pack("{s:s s:i s:i s:s s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "end", sandbox_end_name(report->end),
                                "exit", report->exit, "signal", report->signal, "isolation", isolation_name(report->isolation),
                                "wall_ms", (json_int_t)report->wall_ms, "cpu_ms", (json_int_t)report->cpu_ms, "memory_bytes",
                                (json_int_t)report->memory_bytes, "start_us", (json_int_t)report->start_us, "log_bytes",
                                (json_int_t)report->log_bytes, "log_dropped", (json_int_t)report->log_dropped, "output_files",
                                (json_int_t)report->output_files, "output_bytes", (json_int_t)report->output_bytes,
                                "addresses_out_of_reach", (json_int_t)report->address_count);

    if (json == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the report");
    TRY(set(json, "log", digest_json(&report->log), err));
    if (report->outputs_refused) TRY(set(json, "outputs_refused", json_string(report->refusal.message), err));
    if (attempt->folder >= 0) TRY(set(json, "outputs_kept", json_integer(attempt->kept), err));
    if (attempt->stopped) TRY(set(json, "outputs_not_kept", json_string(attempt->why.message), err));
    TRY(add_given(attempt, report, json, err));
    return json_write_canonical(text, json, err);
}

static int exit_of(const struct attempt *attempt, const struct sandbox_report *report)
{
    if (report->end == SANDBOX_TIMEOUT) return EXIT_TIMEOUT;
    if (report->signal != 0) return EXIT_SIGNAL + report->signal;
    if (report->exit != 0) return report->exit;
    if (report->outputs_refused) return EXIT_OUTPUTS;
    return attempt->stopped ? EXIT_NOT_KEPT : 0;
}

static struct result run(struct attempt *attempt, struct buffer *text, int *exit_out, struct error *err)
{
    struct sandbox_report report;

    TRY(prepare(attempt, err));
    TRY(payload_run(&attempt->payload, &report, &attempt->variables, err));
    if (attempt->is_in_line) (void)!write(STDOUT_FILENO, "\n", 1); /* so that a report begins a line */
    TRY(write_report(attempt, &report, text, err));
    *exit_out = exit_of(attempt, &report);
    return SUCCESS;
}

struct result attempt_run(const struct attempt_options *options, struct buffer *report, int *exit_out, struct error *err)
{
    struct attempt attempt = {.options = options,
                              .folder = -1,
                              .payload.sandbox = {.cgroup = options->cgroup,
                                                  .work = options->work,
                                                  .user = options->user,
                                                  .inside = options->inside,
                                                  .log = show_log,
                                                  .progress = show_progress,
                                                  .output = keep_output,
                                                  .each_second = sample,
                                                  .cancelled = options->cancelled}};
    attempt.payload.sandbox.context = &attempt;
    const struct result done = run(&attempt, report, exit_out, err);

    if (!done.ok && attempt.folder >= 0) (void)rmdir(options->output); /* made for nothing; one with outputs stays */
    file_close_owned(&attempt.folder);
    json_decref(attempt.variables);
    json_decref(attempt.outputs);
    devices_free(attempt.devices);
    image_layout_free(attempt.layout);
    run_spec_free(attempt.spec);
    return done;
}

static long long number(const json_t *json, const char *name)
{
    int64_t value = 0;

    (void)json_integer_of(json, name, &value);
    return (long long)value;
}

static struct result add_devices(const json_t *json, struct buffer *text, struct error *err)
{
    size_t at = 0;
    json_t *device = NULL;

    json_array_foreach (json_object_get(json, "devices"), at, device)
        TRY(buffer_format(text, err, "device     %s  %s, driver %s, %lld %% busy at most\n", json_text_of(device, "uuid"),
                          json_text_of(device, "type"), json_text_of(device, "driver"), number(device, "utilisation_percent")));
    return SUCCESS;
}

static struct result add_outputs(const json_t *json, struct buffer *text, struct error *err)
{
    const char *refused = json_text_of(json, "outputs_refused"), *not_kept = json_text_of(json, "outputs_not_kept");
    size_t at = 0;
    json_t *output = NULL;

    json_array_foreach (json_object_get(json, "outputs"), at, output)
        TRY(buffer_format(text, err, "output     %s  %lld  %s\n", json_text_of(output, "digest"), number(output, "size"),
                          json_text_of(output, "path")));
    if (refused != NULL) TRY(buffer_format(text, err, "REFUSED    %s\n", refused));
    if (not_kept == NULL) return SUCCESS;
    return buffer_format(text, err, "NOT KEPT   the first %lld of these outputs are in the folder, the others are lost: %s\n",
                         number(json, "outputs_kept"), not_kept);
}

struct result attempt_text(struct bytes report, struct buffer *text, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read(report, report.length, &json, err));
    TRY(buffer_format(text, err, "%-10s exit %lld, signal %lld; isolation %s\n", json_text_of(json, "end"), number(json, "exit"),
                      number(json, "signal"), json_text_of(json, "isolation")));
    TRY(buffer_format(text, err, "used       %lld ms, %lld ms of processors, %lld MiB of memory at most\n",
                      number(json, "wall_ms"), number(json, "cpu_ms"), number(json, "memory_bytes") >> 20));
    TRY(buffer_format(text, err, "log        %s  %lld bytes, %lld dropped\n", json_text_of(json, "log"),
                      number(json, "log_bytes"), number(json, "log_dropped")));
    TRY(add_devices(json, text, err));
    return add_outputs(json, text, err);
}
