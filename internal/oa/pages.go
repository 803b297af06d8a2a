package oa

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
)

//go:embed html/*.tmpl
var files embed.FS

// pages are the site's templates, parsed once; they never change.
var pages = template.Must(template.New("").ParseFS(files, "html/*.tmpl"))

// PageSize is the number of requests on one page of the list.
const PageSize = 20

// words are the texts of the pages, by key.
var words = map[string]Text{
	"site":           {"演示 OA", "Demo OA"},
	"leave":          {"请假审批", "Leave requests"},
	"report":         {"请假统计", "Leave report"},
	"login":          {"登录", "Log in"},
	"logout":         {"退出登录", "Log out"},
	"user":           {"用户名", "User name"},
	"password":       {"密码", "Password"},
	"bad_login":      {"用户名或密码不正确", "User name or password is wrong"},
	"filter":         {"筛选", "Filter"},
	"pending":        {"待审批", "Pending"},
	"approved":       {"已批准", "Approved"},
	"rejected":       {"已驳回", "Rejected"},
	"all":            {"全部", "All"},
	"id":             {"单号", "No."},
	"applicant":      {"申请人", "Applicant"},
	"kind":           {"类型", "Type"},
	"days":           {"天数", "Days"},
	"dates":          {"日期", "Dates"},
	"reason":         {"事由", "Reason"},
	"status":         {"状态", "Status"},
	"action":         {"操作", "Action"},
	"view":           {"查看", "View"},
	"none":           {"没有请假单", "No leave requests"},
	"count":          {"共 %d 条", "%d in all"},
	"page":           {"第 %d / %d 页", "Page %d of %d"},
	"prev":           {"上一页", "Previous"},
	"next":           {"下一页", "Next"},
	"request":        {"请假单", "Leave request"},
	"comment":        {"审批意见", "Comment"},
	"approve":        {"批准", "Approve"},
	"reject":         {"驳回", "Reject"},
	"ask":            {"确定要%s%s的请假单 %s 吗？", "%s the leave request of %s, %s?"},
	"decide":         {"审批", "Decide on"},
	"back":           {"返回列表", "Back to list"},
	"done_approved":  {"操作成功：已批准", "Done: approved"},
	"done_rejected":  {"操作成功：已驳回", "Done: rejected"},
	"recorded":       {"请求已记录", "The request was recorded"},
	"decided_before": {"该请假单此前已处理，本次操作未生效", "This leave request had been decided before; nothing was changed"},
	"no_session":     {"请先登录", "Please log in first"},
	"no_request":     {"请假单不存在", "There is no such leave request"},
	"not_found":      {"页面不存在", "There is no such page"},
	"month":          {"月份", "Month"},
	"department":     {"部门", "Department"},
	"total":          {"合计", "Total"},
	"notice":         {"公告", "Notice"},
	"welcome":        {"内部演示系统，数据均为虚构。", "An internal demonstration; all data are made up."},
}

// view is what every template gets.
type view struct {
	Lang  string
	Title string
	User  string
	Flash string
	// Asks: the page asks with a dialog of the browser before it sends a
	// decision.
	Asks bool
	Data any
}

// T is the text of a key in the page's language.
func (v view) T(key string) string { return words[key].In(v.Lang) }

// In is t in the page's language.
func (v view) In(t Text) string { return t.In(v.Lang) }

// Ask is the question before a decision, by the key of its button.
func (v view) Ask(key string, q Request) string {
	return fmt.Sprintf(words["ask"].In(v.Lang), v.T(key), v.In(q.Applicant), q.ID)
}

// StatusText is the name of a status.
func (v view) StatusText(s Status) string { return v.T(string(s)) }

// Days writes a number of days.
func (v view) Days(d float64) string {
	if v.Lang == "en" && d == 1 {
		return "1 day"
	}
	return days(d) + v.unit()
}

func (v view) unit() string {
	if v.Lang == "en" {
		return " days"
	}
	return " 天"
}

// Link is a path of the site in the page's language.
func (v view) Link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	if v.Lang == "en" {
		q.Set("lang", "en")
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func (s *Site) render(w http.ResponseWriter, r *http.Request, status int, name, title string, v view) {
	v.Lang, v.User = language(r), s.user(r)
	v.Title = title
	if title == "" {
		v.Title = v.T(name)
	}
	if v.Title != v.T("site") {
		v.Title += " - " + v.T("site")
	}
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name+".tmpl", v); err != nil {
		s.log.Error("page not rendered", "page", name, "err", err)
		http.Error(w, "page not rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := b.WriteTo(w); err != nil {
		s.log.Debug("page not sent", "page", name, "err", err)
	}
}

// message answers with a page that says one thing.
func (s *Site) message(w http.ResponseWriter, r *http.Request, status int, key string) {
	text := words[key].In(language(r))
	s.render(w, r, status, "message", text, view{Data: text})
}

func (s *Site) notFound(w http.ResponseWriter, r *http.Request) {
	s.message(w, r, http.StatusNotFound, "not_found")
}

func (s *Site) home(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "home", words["site"].In(language(r)), view{})
}

func (s *Site) loginPage(w http.ResponseWriter, r *http.Request) {
	s.renderLogin(w, r, http.StatusOK, "")
}

func (s *Site) renderLogin(w http.ResponseWriter, r *http.Request, status int, name string) {
	v := view{Data: struct{ Name, Next string }{name, next(r)}}
	if status != http.StatusOK {
		v.Flash = words["bad_login"].In(language(r))
	}
	s.render(w, r, status, "login", "", v)
}

type listData struct {
	Filter      string
	Filters     []string
	Rows        []Request
	Count       string
	Page, Pages int
	Paging      string
	Prev, Next  string // page numbers, empty if there is none
}

func (s *Site) list(w http.ResponseWriter, r *http.Request) {
	lang := language(r)
	d := listData{Filter: r.URL.Query().Get("status"), Filters: []string{"pending", "approved", "rejected", "all"}}
	if d.Filter == "" {
		d.Filter = string(Pending)
	}
	for _, q := range s.Ledger().Requests {
		if d.Filter == "all" || string(q.Status) == d.Filter {
			d.Rows = append(d.Rows, q)
		}
	}
	d.Count = fmt.Sprintf(words["count"].In(lang), len(d.Rows))
	d.Pages = max(1, (len(d.Rows)+PageSize-1)/PageSize)
	d.Page = number(r, "page", 1, 1, d.Pages)
	d.Paging = fmt.Sprintf(words["page"].In(lang), d.Page, d.Pages)
	d.Rows = d.Rows[(d.Page-1)*PageSize : min(d.Page*PageSize, len(d.Rows))]
	if d.Page > 1 {
		d.Prev = strconv.Itoa(d.Page - 1)
	}
	if d.Page < d.Pages {
		d.Next = strconv.Itoa(d.Page + 1)
	}
	s.render(w, r, http.StatusOK, "leave", "", view{Data: d})
}

func (s *Site) detail(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	i := s.find(r.PathValue("id"))
	var q Request
	if i >= 0 {
		q = s.requests[i]
	}
	s.mu.Unlock()
	if i < 0 {
		s.message(w, r, http.StatusNotFound, "no_request")
		return
	}
	v := view{Data: q, Asks: r.URL.Query().Get("ask") != ""}
	if done := r.URL.Query().Get("done"); done == string(q.Status) && q.Status != Pending {
		v.Flash = words["done_"+done].In(language(r))
	}
	s.render(w, r, http.StatusOK, "detail", words["request"].In(language(r))+" "+q.ID, v)
}

type reportRow struct {
	No               int
	Month            string
	Department, Name Text
	Kind             Text
	Days             float64
}

// report shows a long table, 200 rows unless the query says otherwise.
func (s *Site) report(w http.ResponseWriter, r *http.Request) {
	n := number(r, "rows", 200, 0, 5000)
	departments := []Text{{"研发部", "Engineering"}, {"市场部", "Marketing"}, {"财务部", "Finance"}, {"人事部", "Human resources"}, {"行政部", "Administration"}}
	base := Default()
	var total float64
	rows := make([]reportRow, n)
	for i := range rows {
		q := base[i%len(base)]
		rows[i] = reportRow{
			No: i + 1, Month: fmt.Sprintf("2025-%02d", i%12+1), Department: departments[i%len(departments)],
			Name: q.Applicant, Kind: q.Kind, Days: float64(i%9)/2 + 0.5,
		}
		total += rows[i].Days
	}
	s.render(w, r, http.StatusOK, "report", "", view{Data: struct {
		Rows  []reportRow
		Total float64
		Count string
	}{rows, total, fmt.Sprintf(words["count"].In(language(r)), n)}})
}

func (s *Site) hostile(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "hostile", words["notice"].In(language(r)), view{})
}
