/* Why a run waits: what a runner must give for it, and what the runners lack that have asked for work. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/run_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of a run that no runner has taken: what a runner must give, for a comparison with `sijil runner list`. */
static void print_needs(const struct run_envelope *request, const json_t *run)
{
    const long long nodes = (long long)number_of(run, "nodes_wanted");
    char wanted[32] = "one";

    if (nodes > 1) (void)snprintf(wanted, sizeof wanted, "each of %lld", nodes);
    static const char *const members[] = {"cpus", "memory_bytes", "output_bytes", "time_s"};
    const json_t *places = run_member(request, "spec.jurisdictions"), *devices = run_member(request, "spec.devices");
    char cell[CELL_MAX];

    cell_text(run_member(request, "spec.pool"), cell);
    (void)printf("%-16s no runner of the pool %s has taken it %s; %s must give\n", "waits", cell,
                 number_of(run, "attempt") > 0 ? "again, after the last attempt ended without a result" : "yet", wanted);
    (void)printf("%-16s isolation %s, assurance %lld", "", run_text(request, "spec.isolation"),
                 (long long)run_integer(request, "spec.assurance"));
    for (size_t i = 0; i < COUNT(members); i++)
        (void)printf(", %s %lld", members[i], (long long)number_of(run_member(request, "spec.limits"), members[i]));
    if (devices != NULL) {
        cell_text(json_object_get(devices, "type"), cell);
        (void)printf(", devices %lld of %s", (long long)number_of(devices, "count"), cell);
    }
    (void)printf(", in");
    for (size_t i = 0; i < json_array_size(places); i++) {
        cell_text(json_array_get(places, i), cell);
        (void)printf("%s %s", i == 0 ? "" : " or", cell);
    }
    (void)printf("\n");
}

/* What a person reads for a word of the registry. NULL: a newer registry's word, which is shown as it is. */
static const char *lack_text(const char *what)
{
    static const struct {
        const char *what, *text;
    } texts[] = {{"region", "in a region that the policies do not allow for it"},
                 {"jurisdiction", "under a jurisdiction that the request does not name"},
                 {"isolation", "with a weaker isolation"},
                 {"assurance", "with a lower assurance"},
                 {"cpus", "with too few free cpus"},
                 {"memory", "with too little free memory"},
                 {"devices", "without the devices, or with too few that are free"},
                 {"nodes", "serving no runs of several nodes"},
                 {"enrolment", "whose enrolment ends before the run could"},
                 {"rest", "that returned it a moment ago, and may take it again soon"}};

    for (size_t i = 0; i < COUNT(texts); i++)
        if (strcmp(what, texts[i].what) == 0) return texts[i].text;
    return NULL;
}

static void print_lack(const json_t *lack)
{
    const char *what = json_text_of(lack, "what"), *text = what == NULL ? NULL : lack_text(what);
    char cell[CELL_MAX];

    cell_text(json_object_get(lack, "what"), cell);
    (void)printf("%-16s %lld %s%s\n", "", (long long)number_of(lack, "runners"), text == NULL ? "lacking " : "",
                 text == NULL ? cell : text);
}

/* Why it waits although runners fit. */
static const char *fit_text(long long fit, long long nodes)
{
    if (fit == 0) return "; of these runners are";
    return fit < nodes ? ": all nodes begin together, so more may have to come" /* one runner of a scheduler may take several */
                       : ": an older run, or one of several nodes, may come first";
}

static void print_runners(const json_t *runners, long long nodes, const char *host)
{
    const json_t *lacks = json_object_get(runners, "lack");
    const long long asked = number_of(runners, "asked"), fit = number_of(runners, "fit"), busy = number_of(runners, "busy");
    const char *title = "runners";

    if (busy > 0) {
        (void)printf("%-16s %lld %s busy with other runs\n", title, busy, busy == 1 ? "is" : "are");
        title = "";
    }
    if (asked == 0 && busy == 0)
        (void)printf("%-16s none that may take it has asked for work in the last two minutes: is one running? An administrator "
                     "sees: sijil runner list %s\n",
                     title, host);
    if (asked == 0) return;
    (void)printf("%-16s %lld asked for work in the last two minutes, and %lld of them fit%s\n", title, asked, fit,
                 fit_text(fit, nodes));
    for (size_t i = 0; i < json_array_size(lacks); i++) print_lack(json_array_get(lacks, i));
}

void run_wait_text(const json_t *run, char text_out[RUN_WAIT_MAX])
{
    const json_t *runners = json_object_get(run, "runners");
    const long long asked = number_of(runners, "asked"), busy = number_of(runners, "busy");

    text_out[0] = '\0';
    if (runners == NULL || number_of(runners, "fit") > 0) return;
    if (busy > 0) (void)snprintf(text_out, RUN_WAIT_MAX, ": %lld %s busy", busy, busy == 1 ? "is" : "are");
    else if (asked == 0) (void)snprintf(text_out, RUN_WAIT_MAX, ": none asks for work");
    else (void)snprintf(text_out, RUN_WAIT_MAX, ": %lld asked, and none fits", asked);
}

void run_show_needs(const struct run_envelope *request, const json_t *run, const json_t *runners, const char *host)
{
    if (!run_is_in(run, "ordered") && !(run_is_in(run, "expired") && number_of(run, "attempt") == 0)) return;
    print_needs(request, run);
    if (runners != NULL) print_runners(runners, (long long)number_of(run, "nodes_wanted"), host);
}
