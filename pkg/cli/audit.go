// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// auditCommand lists the decisions of several Rollouts.
type auditCommand struct {
	*app
	name       string
	everywhere bool
	since      time.Duration
	format     string
}

// pageSize is the number of objects in a response.
const pageSize = "200"

// recordedRelease is what a RolloutHistory says about a release.
type recordedRelease struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Rollout struct {
			Name string `json:"name"`
		} `json:"rollout"`
		Workload struct {
			Data struct {
				Template podTemplate `json:"template"`
			} `json:"data"`
		} `json:"workload"`
	} `json:"spec"`
	Status struct {
		Revision  string         `json:"canaryRevision"`
		Decisions []draw.Decided `json:"decisions"`
	} `json:"status"`
}

// currentRelease is what a Rollout says about its current release.
type currentRelease struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Releases  []v1beta1.ReleaseRecord `json:"releases"`
		Decisions []draw.Decided          `json:"decisions"`
	} `json:"status"`
}

// podTemplate is the part of a pod template that has the images.
type podTemplate struct {
	Spec struct {
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
}

// labelReleaseNumber is the label of a RolloutHistory that has the number of the release.
const labelReleaseNumber = v1beta1.GroupName + "/release-number"

func (c *auditCommand) run(ctx context.Context) error {
	if !slices.Contains([]string{"", "csv", "json"}, c.format) {
		return fmt.Errorf("--output %q must be csv or json for the decisions of several Rollouts", c.format)
	}
	s, err := c.connect()
	if err != nil {
		return err
	}
	namespaces := strings.Split(s.namespace, ",")
	if c.everywhere {
		namespaces = []string{""}
	}
	found, _, err := readNamespaces(ctx, c, namespaces, func(ctx context.Context, namespace string) ([]draw.Decided, error) {
		return c.readDecisions(ctx, s, namespace)
	})
	if err != nil {
		return explainError(err, "")
	}
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b draw.Decided) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Rollout, b.Rollout), cmp.Compare(a.ID, b.ID))
	})
	return c.print(all)
}

// readDecisions reads the decisions of the current releases from the Rollouts, and those of earlier releases from the
// RolloutHistories. The histories of deleted Rollouts remain.
func (c *auditCommand) readDecisions(ctx context.Context, s *server, namespace string) ([]draw.Decided, error) {
	var all []draw.Decided
	type key struct {
		namespace, rollout string
		id                 int64
		time               time.Time
	}
	seen := map[key]bool{}
	add := func(d draw.Decided) {
		k := key{d.Namespace, d.Rollout, d.ID, d.Time.UTC()}
		isOld := c.since > 0 && d.Time.Time.Before(c.clock.Now().Add(-c.since))
		if seen[k] || isOld || c.name != "" && d.Rollout != c.name {
			return
		}
		seen[k] = true
		all = append(all, d)
	}
	// Histories come first, because they name the images.
	err := readPages(ctx, s, "v1alpha1", namespace, "rollouthistories", func(h *recordedRelease) {
		number, err := strconv.ParseInt(h.Metadata.Labels[labelReleaseNumber], 10, 64)
		if err != nil {
			return // a history of OpenKruise has no decisions
		}
		for _, d := range h.Status.Decisions {
			d.Namespace, d.Rollout, d.Release = h.Metadata.Namespace, h.Spec.Rollout.Name, number
			d.Version = cmp.Or(imagesOf(&h.Spec.Workload.Data.Template), h.Status.Revision, d.Revision)
			add(d)
		}
	})
	if apierrors.IsForbidden(err) && namespace != "" {
		c.printNote("Decisions of completed releases in namespace %s are missing: you need permission to list rollouthistories.", namespace)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	err = readPages(ctx, s, "v1beta1", namespace, "rollouts", func(r *currentRelease) {
		for _, d := range r.Status.Decisions {
			for _, release := range r.Status.Releases {
				if release.FirstDecision > 0 && release.FirstDecision <= d.ID {
					d.Release = release.Number
				}
			}
			d.Namespace, d.Rollout, d.Version = r.Metadata.Namespace, r.Metadata.Name, d.Revision
			add(d)
		}
	})
	return all, err
}

func imagesOf(t *podTemplate) string {
	var images []string
	for _, c := range t.Spec.Containers {
		images = append(images, c.Image)
	}
	return strings.Join(images, " ")
}

// readPages reads all objects of a kind in a namespace, or in all namespaces, page by page.
func readPages[T any](ctx context.Context, s *server, version, namespace, resource string, take func(*T)) error {
	for next := ""; ; {
		r := s.rest.Get().AbsPath("/apis", v1beta1.GroupName, version).NamespaceIfScoped(namespace, namespace != "").Resource(resource).
			Param("limit", pageSize).Param("continue", next)
		page, err := fetch[struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}](ctx, r, "")
		if err != nil {
			return err
		}
		for i := range page.value.Items {
			take(&page.value.Items[i])
		}
		if next = page.value.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// print prints decisions in the format of -o.
func (c *auditCommand) print(all []draw.Decided) error {
	switch c.format {
	case "csv":
		return c.printCSV(all)
	case "json":
		raw, err := json.Marshal(toAuditRecords(all))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Out, "%s\n", raw)
		return err
	}
	if len(all) == 0 {
		c.printNote("No decisions found.")
		return nil
	}
	s := c.screen()
	_, err := fmt.Fprint(c.Out, s.Finish(s.Decisions(all)))
	return err
}

// auditRecord is a decision in the formats for programs. All times are in UTC.
type auditRecord struct {
	Time      string `json:"timeUTC"`
	Namespace string `json:"namespace"`
	Rollout   string `json:"rollout"`
	Release   int64  `json:"release"`
	Version   string `json:"version"`
	Verb      string `json:"verb"`
	User      string `json:"user"`
	Step      int32  `json:"step"`
	ToStep    int32  `json:"toStep"`
	Full      bool   `json:"full"`
	Overrode  string `json:"overrode"`
	Reason    string `json:"reason"`
	Outcome   string `json:"outcome"`
	Via       string `json:"via"`
}

func toAuditRecords(all []draw.Decided) []auditRecord {
	records := make([]auditRecord, 0, len(all))
	for i := range all {
		d := &all[i]
		records = append(records, auditRecord{
			Time: d.Time.UTC().Format(time.RFC3339), Namespace: d.Namespace, Rollout: d.Rollout, Release: d.Release, Version: d.Version,
			Verb: string(d.Verb), User: d.User, Step: d.Step, ToStep: d.ToStep, Full: d.Full, Overrode: draw.Overridden(&d.Decision),
			Reason: d.Reason, Outcome: string(d.Outcome), Via: string(d.Via),
		})
	}
	return records
}

var auditColumns = []string{"time_utc", "namespace", "rollout", "release", "version", "verb", "user", "step", "toStep", "full", "overrode", "reason", "outcome", "via"}

func (c *auditCommand) printCSV(all []draw.Decided) error {
	w := csv.NewWriter(c.Out)
	errs := []error{w.Write(auditColumns)}
	for _, r := range toAuditRecords(all) {
		row := []string{
			r.Time, r.Namespace, r.Rollout, numberCell(r.Release), r.Version, r.Verb, r.User, numberCell(int64(r.Step)), numberCell(int64(r.ToStep)),
			strconv.FormatBool(r.Full), r.Overrode, r.Reason, r.Outcome, r.Via,
		}
		for i := range row {
			row[i] = escapeFormula(row[i])
		}
		errs = append(errs, w.Write(row))
	}
	w.Flush()
	return errors.Join(append(errs, w.Error())...)
}

func numberCell(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// escapeFormula returns a cell that spreadsheets show as text. Users choose names and reasons, and spreadsheets run
// cells that begin with one of these characters.
func escapeFormula(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) {
		return "'" + cell
	}
	return cell
}

// parseSince parses a duration, which may be a number of days such as 7d.
func parseSince(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err == nil && n > 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	since, err := time.ParseDuration(text)
	if err != nil || since <= 0 {
		return 0, fmt.Errorf("--since %q must be a duration, for example 90m, 24h or 7d", text)
	}
	return since, nil
}
